// llama.cpp's side of benchmarks/engine.py: a model on the CPU, timed as told on standard input.
//
//     node llama.mjs ENTRY MODEL THREADS SEQUENCES CONTEXT
//
// ENTRY is node-llama-cpp's main module. Each line in is a task, {"prefill": [tokens]} or {"prompts": [[tokens], ...],
// "decode": count, "goingOn": true | false}; each line out is {"tokens", "cpu", "wall"}, times in seconds. The first line
// out is {"ready": true}.

import {createInterface} from "node:readline";
import {pathToFileURL} from "node:url";

const [entry, modelPath, threadText, sequenceText, contextText] = process.argv.slice(2);
const threads = Number(threadText);
const {getLlama} = await import(pathToFileURL(entry));
const llama = await getLlama({gpu: false, build: "never", logLevel: "error", maxThreads: threads});
const model = await llama.loadModel({modelPath, gpuLayers: 0});
const context = await model.createContext({
    contextSize: Number(contextText), batchSize: 512, threads, sequences: Number(sequenceText), flashAttention: true
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

const lasts = new Map();  // of sequences that go on, the token that comes next

// The prompts but their last tokens are evaluated before the clock starts; `count` greedy tokens of each sequence after.
// A sequence that goes on is evaluated once, and decodes behind what it decoded before.
async function decode(prompts, count, goingOn) {
    const used = sequences.slice(0, prompts.length);
    for (const [i, sequence] of used.entries()) {
        if (goingOn && lasts.has(i)) continue;
        await sequence.clearHistory();
        await sequence.evaluateWithoutGeneratingNewTokens(prompts[i].slice(0, -1));
    }
    async function generate(sequence, i) {
        let made = 0, last = goingOn && lasts.has(i) ? lasts.get(i) : prompts[i].at(-1);
        for await (const token of sequence.evaluate([last], {temperature: 0, yieldEogToken: true})) {
            last = token;
            if (++made === count) break;
        }
        if (goingOn) lasts.set(i, last);
        return made;
    }
    return await timed(async () => {
        const made = await Promise.all(used.map((sequence, i) => generate(sequence, i)));
        return made.reduce((sum, n) => sum + n, 0);
    });
}

console.log(JSON.stringify({ready: true}));
for await (const line of createInterface({input: process.stdin})) {
    const task = JSON.parse(line);
    console.log(JSON.stringify(task.prefill ? await prefill(task.prefill) : await decode(task.prompts, task.decode, task.goingOn)));
}
process.exit(0);
