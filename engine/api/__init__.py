"""OpenAI's API: its types, the chat templates that turn a conversation into a prompt, and the server that speaks
it over HTTP.
"""
