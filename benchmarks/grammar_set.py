"""Twenty grammars in GBNF, which all three engines read, each with texts as a model might write them."""

from __future__ import annotations

from typing import Final, NamedTuple


class Case(NamedTuple):
    name: str
    grammar: str
    texts: tuple[str, ...]


_ARITHMETIC = r"""
root ::= line+
line ::= name " = " expr "\n"
expr ::= expr " " [-+] " " term | term
term ::= term " " [*/] " " factor | factor
factor ::= number | name | "(" expr ")" | name "(" expr (", " expr)* ")"
number ::= [0-9]+ ("." [0-9]+)?
name ::= [a-z_] [a-z0-9_]*
"""
_RIGHT = r"""
root ::= expr
expr ::= term (" + " expr | " - " expr)?
term ::= factor (" * " term | " / " term)?
factor ::= [0-9]+ | "(" expr ")"
"""
_JSON = r"""
root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws
ws ::= [ \t\n]{0,20}
"""
_SQL = r"""
root ::= select ";"
select ::= "SELECT " columns " FROM " source join* (" WHERE " condition)? (" GROUP BY " names)? order? limit?
columns ::= "*" | column (", " column)*
column ::= expr (" AS " name)?
source ::= name (" AS " name)? | "(" select ")" " AS " name
join ::= (" LEFT" | " INNER")? " JOIN " source " ON " condition
order ::= " ORDER BY " expr (" ASC" | " DESC")? (", " expr (" ASC" | " DESC")?)*
limit ::= " LIMIT " [0-9]+ (" OFFSET " [0-9]+)?
condition ::= test ((" AND " | " OR ") test)*
test ::= "(" condition ")" | expr " " ("=" | "<>" | "<=" | ">=" | "<" | ">") " " expr | expr " IN (" expr (", " expr)* ")" |
    expr " IS " "NOT "? "NULL" | expr " LIKE " string | expr " BETWEEN " expr " AND " expr
expr ::= operand (" " [-+*/] " " operand)*
operand ::= number | string | name ("." name)? | name "(" ("*" | expr (", " expr)*) ")" | "(" expr ")"
names ::= expr (", " expr)*
name ::= [a-z_] [a-z0-9_]*
string ::= "'" [^'\n]* "'"
number ::= [0-9]+ ("." [0-9]+)?
"""
_C = r"""
root ::= (function | declaration)+
function ::= type name "(" (type name (", " type name)*)? ") " block "\n"
declaration ::= type name ("[" [0-9]+ "]")? (" = " expr)? ";\n"
type ::= ("unsigned " | "const ")? ("int" | "char" | "float" | "double" | "void" | "long") " " "*"*
block ::= "{\n" statement* ws "}"
statement ::= ws (declaration | simple ";\n" | control)
simple ::= expr | name index* " " [-+*/]? "= " expr | "return" (" " expr)? | "break" | "continue"
control ::= "if (" expr ") " block (" else " block)? "\n" | "while (" expr ") " block "\n" |
    "for (" ("int " name | name) " = " expr "; " expr "; " expr ") " block "\n"
index ::= "[" expr "]"
expr ::= unary (" " ("+" | "-" | "*" | "/" | "%" | "<" | ">" | "<=" | ">=" | "==" | "!=" | "&&" | "||") " " unary)*
unary ::= [-!*&]? postfix
postfix ::= primary (index | "(" (expr (", " expr)*)? ")" | "." name | "->" name | "++" | "--")*
primary ::= name | [0-9]+ ("." [0-9]+)? | "\"" [^"\n]* "\"" | "'" [^'\n] "'" | "(" expr ")"
name ::= [a-zA-Z_] [a-zA-Z0-9_]*
ws ::= [ \t]{0,16}
"""
_XML = r"""
root ::= "<?xml version=\"1.0\"?>\n" element "\n"?
element ::= "<" name attribute* ("/>" | ">" content "</" name ">")
attribute ::= " " name "=\"" [^"<&]* "\""
content ::= (element | text | "<!--" [^-]* "-->" | "&" [a-z]+ ";")*
text ::= [^<&]+
name ::= [a-zA-Z_] [a-zA-Z0-9_.-]*
"""
_PYTHON = r"""
root ::= (line "\n" | "\n")+
line ::= ws (compound | simple)
compound ::= "def " name "(" parameters? ")" (" -> " name)? ":" | ("if " | "elif " | "while ") test ":" | "else:" |
    "for " names " in " test ":" | "class " name ("(" name ")")? ":" | "with " test " as " name ":"
simple ::= "return" (" " test)? | "pass" | "import " dotted | "from " dotted " import " names | target " " [-+*/]? "= " test |
    test | "raise " test | "# " [^\n]*
parameters ::= parameter (", " parameter)*
parameter ::= name (": " name)? ("=" test)?
test ::= conjunction (" or " conjunction)*
conjunction ::= comparison (" and " comparison)*
comparison ::= "not "? sum (" " ("==" | "!=" | "<" | ">" | "<=" | ">=" | "in" | "not in" | "is" | "is not") " " sum)?
sum ::= factor (" " ("+" | "-" | "*" | "/" | "//" | "%" | "**") " " factor)*
factor ::= "-"? atom ("." name | "(" arguments? ")" | "[" test (":" test?)? "]")*
atom ::= name | number | string | "(" (test (", " test)*)? ")" | "[" (test (", " test)*)? "]" |
    "{" (test ": " test (", " test ": " test)*)? "}" | "[" test " for " names " in " test (" if " test)? "]"
arguments ::= argument (", " argument)*
argument ::= (name "=")? test
target ::= name ("." name | "[" test "]")* (", " name)*
names ::= name (", " name)*
dotted ::= name ("." name)*
name ::= [a-zA-Z_] [a-zA-Z0-9_]*
number ::= [0-9]+ ("." [0-9]+)?
string ::= "f"? "\"" [^"\n]* "\"" | "'" [^'\n]* "'"
ws ::= [ ]{0,32}
"""
_CHESS = r"""
root ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
"""
_CSV = r"""
root ::= row+
row ::= field ("," field)* "\n"
field ::= [^",\n]* | "\"" ([^"] | "\"\"")* "\""
"""
_LISP = r"""
root ::= form+
form ::= list "\n"
list ::= "(" item (" " item)* ")"
item ::= list | symbol | number | string | "'" item
symbol ::= [a-z+*/<=>?!-] [a-z0-9+*/<=>?!-]*
number ::= [0-9]+
string ::= "\"" [^"]* "\""
"""
_MARKDOWN = r"""
root ::= "# " text "\n\n" (section | paragraph | list)+
section ::= "## " text "\n\n"
paragraph ::= text "\n\n"
list ::= (("- " | [1-9] ". ") text "\n")+ "\n"
text ::= (plain | "**" plain "**" | "`" [^`\n]+ "`" | "[" plain "](" [^)\n]+ ")")+
plain ::= [^*`\n[\]#]+
"""
_TOML = r"""
root ::= (pair | table | comment | "\n")+
table ::= "[" key ("." key)* "]\n"
pair ::= key " = " value "\n"
comment ::= "# " [^\n]* "\n"
key ::= [a-zA-Z0-9_-]+
value ::= string | number | "true" | "false" | array | date
array ::= "[" (value (", " value)*)? "]"
string ::= "\"" ([^"\\\n] | "\\" [nt"\\])* "\""
number ::= "-"? [0-9]+ ("." [0-9]+)?
date ::= [0-9]{4} "-" [0-9]{2} "-" [0-9]{2}
"""
_LOG = r"""
root ::= entry+
entry ::= date " " time " [" level "] " word ("." word)* ": " [^\n]+ "\n"
date ::= "20" [0-9]{2} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [12] [0-9] | "3" [01])
time ::= ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] "." [0-9]{3}
level ::= "DEBUG" | "INFO" | "WARNING" | "ERROR"
word ::= [a-z_]+
"""
_GRAPHQL = r"""
root ::= ("query" | "mutation") (" " name)? arguments? " " selection
selection ::= "{ " (field " ")+ "}"
field ::= (name ": ")? name arguments? (" " selection)?
arguments ::= "(" argument (", " argument)* ")"
argument ::= "$"? name ": " value
value ::= "$" name | [0-9]+ | "\"" [^"\n]* "\"" | "true" | "false" | [A-Z_]+ | "[" (value (", " value)*)? "]" | "Int!" | "String"
name ::= [a-z_] [a-zA-Z0-9_]*
"""
_CSS = r"""
root ::= rule+
rule ::= selectors " {\n" ("  " property ": " value ";\n")* "}\n"
selectors ::= selector (", " selector)*
selector ::= simple ((" " | " > ") simple)*
simple ::= ("." | "#")? name (":" name)?
property ::= [a-z-]+
value ::= term (" " term)*
term ::= "#" [0-9a-f]{3,6} | "-"? [0-9]+ ("." [0-9]+)? ("px" | "em" | "%" | "rem" | "s")? | name ("(" value (", " value)* ")")? |
    "\"" [^"\n]* "\""
name ::= [a-zA-Z] [a-zA-Z0-9_-]*
"""
_LAMBDA = r"""
root ::= term
term ::= "\\" name "." term | application
application ::= application " " atom | atom
atom ::= name | "(" term ")"
name ::= [a-z] [0-9]?
"""
_PROTO = r"""
root ::= "syntax = \"proto3\";\n\n" (message | enum)+
message ::= "message " type " {\n" (field | message | enum)* "}\n"
field ::= "  " ("repeated " | "optional ")? ("string" | "int32" | "int64" | "bool" | "double" | "bytes" | type) " " name " = " [0-9]+ ";\n"
enum ::= "enum " type " {\n" ("  " [A-Z] [A-Z_]* " = " [0-9]+ ";\n")+ "}\n"
type ::= [A-Z] [a-zA-Z0-9]*
name ::= [a-z] [a-z0-9_]*
"""
_CALLS = r"""
root ::= "[" call (", " call)* "]"
call ::= name "(" (argument (", " argument)*)? ")"
argument ::= name "=" value
value ::= string | number | "True" | "False" | "None" | "[" (value (", " value)*)? "]" | "{" (string ": " value (", " string ": " value)*)? "}"
string ::= "\"" ([^"\\\n] | "\\" [^\n])* "\"" | "'" ([^'\\\n] | "\\" [^\n])* "'"
number ::= "-"? [0-9]+ ("." [0-9]+)?
name ::= [a-zA-Z_] [a-zA-Z0-9_]* ("." [a-zA-Z_] [a-zA-Z0-9_]*)*
"""
_PALINDROME = r"""
root ::= "a" root "a" | "b" root "b" | "c" root "c" | "."
"""
_HTML = r"""
root ::= "<table>" row+ "</table>"
row ::= "<tr>" (("<td>" cell "</td>") | ("<th>" cell "</th>"))+ "</tr>"
cell ::= (text | "<b>" cell "</b>" | "<i>" cell "</i>" | "<a href=\"" [^"]* "\">" cell "</a>")*
text ::= [^<>&]+
"""

CASES: Final[tuple[Case, ...]] = (
    Case(
        "arithmetic",
        _ARITHMETIC,
        ("total = price * (1 + tax_rate) - discount\nmean = sum(a, b, c) / 3.0\nx = ((a + b) * (c - d)) / 42\n",),
    ),
    Case("right_recursive", _RIGHT, ("1 + 2 * (3 - 4 / (5 + 6)) - 7 * 8 + (9 - (10 - (11 - 12))) / 13",)),
    Case(
        "json",
        _JSON,
        (
            '{"name": "Ada Lovelace", "born": 1815, "fields": ["mathematics", "computing"], "nested": {"a": [1, 2.5, -3e10, true, null], "b": {}}}',
        ),
    ),
    Case(
        "sql",
        _SQL,
        (
            "SELECT c.name, count(*) AS orders, sum(o.total) AS revenue FROM customers AS c LEFT JOIN orders AS o ON o.customer_id = c.id WHERE c.country IN ('DE', 'FR') AND o.created BETWEEN '2024-01-01' AND '2024-12-31' GROUP BY c.name ORDER BY revenue DESC LIMIT 10;",
        ),
    ),
    Case(
        "c",
        _C,
        (
            "int fibonacci(int n) {\n  int previous = 0;\n  int current = 1;\n  for (int i = 2; i <= n; i++) {\n    int next = previous + current;\n    previous = current;\n    current = next;\n  }\n  return current;\n}\nint main() {\n  printf(\"%d\", fibonacci(10));\n  if (x[3] == 'a' && !done) {\n    return 1;\n  } else {\n    return 0;\n  }\n}\n",
        ),
    ),
    Case(
        "xml",
        _XML,
        (
            '<?xml version="1.0"?>\n<catalog><book id="bk101" lang="en"><author>Gambardella, Matthew</author><title>XML Developer&apos;s Guide</title><price>44.95</price><!-- a comment --><empty/></book></catalog>\n',
        ),
    ),
    Case(
        "python",
        _PYTHON,
        (
            'import json\nfrom pathlib import Path\n\nclass Reader(Base):\n    def read(self, path: str, limit=10) -> list:\n        rows = [json.loads(line) for line in Path(path).open() if line]\n        if len(rows) > limit and not self.quiet:\n            print(f"too many rows", limit)\n        return rows[0:limit]\n',
        ),
    ),
    Case(
        "chess",
        _CHESS,
        (
            "1. e4 e5\n2. Nf3 Nc6\n3. Bb5 a6\n4. Ba4 Nf6\n5. O-O Be7\n6. Re1 b5\n7. Bb3 d6\n8. c3 O-O\n9. h3 Nb8\n10. d4 Nbd7\n",
        ),
    ),
    Case(
        "csv",
        _CSV,
        (
            'id,name,city,notes\n1,Ada,London,"said ""hello"", left"\n2,Grace,New York,\n3,Linus,Helsinki,"multi\nline"\n',
        ),
    ),
    Case(
        "lisp",
        _LISP,
        (
            '(define (factorial n) (if (<= n 1) 1 (* n (factorial (- n 1)))))\n(display "the answer is" (map (lambda (x) (* x x)) \'(1 2 3)))\n',
        ),
    ),
    Case(
        "markdown",
        _MARKDOWN,
        (
            "# Release notes\n\nThis version brings **speed** and `make bench`.\n\n## Changes\n\n- masks are **faster**\n- see [the docs](https://example.com/docs)\n\n1. install\n2. run\n\n",
        ),
    ),
    Case(
        "toml",
        _TOML,
        (
            '# settings\ntitle = "Example"\n[owner]\nname = "Tom"\nborn = 1979-05-27\n[database.main]\nports = [8000, 8001]\nenabled = true\nratio = -0.75\n',
        ),
    ),
    Case(
        "log",
        _LOG,
        (
            "2024-03-01 12:30:45.123 [INFO] server.http: listening on port 8000\n2024-03-01 12:31:02.456 [ERROR] engine.loop: the model's step failed\n",
        ),
    ),
    Case(
        "graphql",
        _GRAPHQL,
        (
            "query hero($id: Int!) { hero(id: $id, episode: EMPIRE) { name friends(first: 10) { id name: full_name } appearsIn } }",
        ),
    ),
    Case(
        "css",
        _CSS,
        (
            '.card > h2:hover, #main .title {\n  color: #ff8800;\n  margin: 0 auto 1.5em 10px;\n  font-family: "Inter" sans-serif;\n  transform: rotate(45 deg);\n}\n',
        ),
    ),
    Case("lambda", _LAMBDA, ("(\\f.(\\x.f (x x)) (\\x.f (x x))) (\\g.\\n.n (\\z.m) (k (g (p n))))",)),
    Case(
        "proto",
        _PROTO,
        (
            'syntax = "proto3";\n\nmessage Person {\n  string name = 1;\n  optional int32 age = 2;\n  repeated Address addresses = 3;\n}\nenum Kind {\n  KIND_UNKNOWN = 0;\n  KIND_HOME = 1;\n}\n',
        ),
    ),
    Case(
        "calls",
        _CALLS,
        (
            '[search(query="weather in Paris", limit=5), files.read(path=\'/tmp/a.txt\', options={"encoding": "utf-8", "lines": [1, 2, 3]}), done(ok=True)]',
        ),
    ),
    Case("palindrome", _PALINDROME, ("abcabccbaab.baabccbacba",)),
    Case(
        "html_table",
        _HTML,
        (
            '<table><tr><th>Name</th><th>Link</th></tr><tr><td><b>Ada <i>L.</i></b></td><td><a href="https://example.com">home</a></td></tr></table>',
        ),
    ),
)
