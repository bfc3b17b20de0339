"""Speculative decoding: tokens are guessed cheaply, and one step of the model tells how many of them are right.

A guess never changes an output. Each position of a draft is drawn just as plain decoding draws it: from the model's own
logits there, through the same masks and processors, with the same number of the choice's random stream. A guessed token
stays only where the draw gives it. So outputs are the same to the last token with and without speculation, greedy or
not; rejection sampling (Leviathan et al. 2023) promises this of the distribution alone, and accepts a single guess as
often. (A draft model's guesses are drawn with the choice's own numbers too, so that they agree often: Daliri, Musco,
Suresh 2024, "drafter-invariant speculative decoding".)

    drafts.py       a draft, and the drawing along it
    lookup.py       guesses from the text so far
    draft_model.py  guesses of a smaller model
    pace.py         how many tokens are worth guessing
    speculator.py   puts these together, once a step
"""
