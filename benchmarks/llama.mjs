// llama.cpp's side of benchmarks/engine.py: a model on the CPU, timed as told on standard input.
//
//     node llama.mjs ENTRY MODEL THREADS SEQUENCES
//
// ENTRY is node-llama-cpp's main module. Each line in is a task, {"prefill": [tokens]} or {"prompts": [[tokens], ...],
// "decode": count}; each line out is {"tokens", "cpu", "wall"}, times in seconds. The first line out is {"ready": true}.

import {createInterface} from "node:readline";
import {pathToFileURL} from "node:url";

const [entry, modelPath, threadText, sequenceText] = process.argv.slice(2);
const threads = Number(threadText);
const {getLlama} = await import(pathToFileURL(entry));
const llama = await getLlama({gpu: false, build: "never", logLevel: "error", maxThreads: threads});
const model = await llama.loadModel({modelPath, gpuLayers: 0});
const context = await model.createContext({
    contextSize: 1024, batchSize: 512, threads, sequences: Number(sequenceText), flashAttention: true
});
const sequences = Array.from({length: Number(sequenceText)}, () => context.getSequence());

function processSeconds() {
    const {user, system} = process.cpuUsage();
    return (user + system) / 1e6;
}

async function timed(work) {
    const wall = performance.now(), cpu = processSeconds();
    const tokens = await work();
    return {tokens, cpu: processSeconds() - cpu, wall: (performance.now() - wall) / 1000};
}

async function prefill(tokens) {
    await sequences[0].clearHistory();
    return await timed(async () => {
        await sequences[0].evaluateWithoutGeneratingNewTokens(tokens);
        return tokens.length;
    });
}

// The prompts but their last tokens are evaluated before the clock starts; `count` greedy tokens of each sequence after.
async function decode(prompts, count) {
    const used = sequences.slice(0, prompts.length);
    for (const [i, sequence] of used.entries()) {
        await sequence.clearHistory();
        await sequence.evaluateWithoutGeneratingNewTokens(prompts[i].slice(0, -1));
    }
    async function generate(sequence, last) {
        let made = 0;
        for await (const _ of sequence.evaluate([last], {temperature: 0, yieldEogToken: true}))
            if (++made === count) break;
        return made;
    }
    return await timed(async () => {
        const made = await Promise.all(used.map((sequence, i) => generate(sequence, prompts[i].at(-1))));
        return made.reduce((sum, n) => sum + n, 0);
    });
}

console.log(JSON.stringify({ready: true}));
for await (const line of createInterface({input: process.stdin})) {
    const task = JSON.parse(line);
    console.log(JSON.stringify(task.prefill ? await prefill(task.prefill) : await decode(task.prompts, task.decode)));
}
process.exit(0);
