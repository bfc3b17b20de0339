"""Replicas on Ray Serve: `application` makes a Serve application, `slipcast deploy` runs it. Needs `slipcast[ray]`.

    client -> Serve's proxy -> Front -> WarmRouter -> Replica -> the same application that `slipcast serve` runs

Nothing of the server is written again: a replica answers each request with the ASGI application of `engine.api.server`.
What is here is where a request goes, and what happens when a replica dies.
"""
