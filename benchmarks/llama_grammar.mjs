// llama.cpp's side of benchmarks/constrained.py: values of JSON Schemas under its grammar, on the CPU.
//
//     node llama_grammar.mjs ENTRY MODEL THREADS
//
// ENTRY is node-llama-cpp's main module, which makes a GBNF of each schema. Each line in is {"schema", "prompt":
// [tokens], "limit", "seed", "temperature"}; each line out is {"text", "tokens", "cpu", "wall"}, times in seconds, or
// {"error"}. The first line out is {"ready": true}.

import {createInterface} from "node:readline";
import {pathToFileURL} from "node:url";

const [entry, modelPath, threadText] = process.argv.slice(2);
const threads = Number(threadText);
const {getLlama, LlamaGrammarEvaluationState} = await import(pathToFileURL(entry));
const llama = await getLlama({gpu: false, build: "never", logLevel: "error", maxThreads: threads});
const model = await llama.loadModel({modelPath, gpuLayers: 0});
const context = await model.createContext({contextSize: 1024, batchSize: 512, threads, flashAttention: true});
const sequence = context.getSequence();

function processSeconds() {
    const {user, system} = process.cpuUsage();
    return (user + system) / 1e6;
}

async function value({schema, prompt, limit, seed, temperature}) {
    await sequence.clearHistory();
    const wall = performance.now(), cpu = processSeconds();
    const grammar = await llama.createGrammarForJsonSchema(schema);
    const grammarEvaluationState = new LlamaGrammarEvaluationState({model, grammar});
    const tokens = [];
    for await (const token of sequence.evaluate(prompt, {temperature, seed, grammarEvaluationState})) {
        if (model.isEogToken(token)) break;
        tokens.push(token);
        // Its grammars of schemas end with line breaks without end, four of which are the sign to stop.
        if (tokens.length >= limit || model.detokenize(tokens.slice(-4)).endsWith("\n\n\n\n")) break;
    }
    const told = {tokens: tokens.length, cpu: processSeconds() - cpu, wall: (performance.now() - wall) / 1000};
    return {text: model.detokenize(tokens), ...told};
}

console.log(JSON.stringify({ready: true}));
for await (const line of createInterface({input: process.stdin})) {
    let answer;
    try {
        answer = await value(JSON.parse(line));
    } catch (error) {
        answer = {error: String(error?.message ?? error)};
    }
    console.log(JSON.stringify(answer));
}
process.exit(0);
