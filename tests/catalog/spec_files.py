"""Honest catalog files of any size, made up: operations and entities as large as those of real vendors."""

import json


def honest_json(size: int) -> str:
    schema = {"type": "string", "example": "ä", "enum": ["a", "b", 1.5, True, None]}
    operation = {
        "summary": "Read one of many things",
        "parameters": [{"name": f"p{n}", "in": "query", "schema": schema} for n in range(20)],
        "responses": {"200": {"content": {"application/json": {"schema": schema}}}},
    }
    count = size // len(json.dumps({"/things0000": {"get": operation}}))
    document = {"openapi": "3.0.0", "info": {"title": "Big"}}
    return json.dumps({**document, "paths": {f"/things{n:04}": {"get": operation} for n in range(count)}})


def honest_yaml(size: int) -> str:
    fields = "".join(
        f"""
                  field{n}:
                    type: string
                    description: What the field says.
                    example: "x y"
                    enum: [a, b, c]"""
        for n in range(15)
    )
    operation = f"""
    get:
      summary: Read one of many things
      parameters:
        - {{name: one, in: query, schema: {{type: string}}}}
      responses:
        '200':
          description: >-
            Good, and told in
            two lines.
          content:
            application/json:
              schema:
                properties:{fields}
"""
    body = "".join(f"  /things{n:05}:{operation}" for n in range(size // (len(operation) + 16)))
    return f"openapi: 3.0.0\ninfo: {{title: Big}}\npaths:\n{body}"


def honest_edmx(size: int) -> str:
    fields = "".join(
        f'<Property Name="Field{n}" Type="Edm.String" Nullable="false" MaxLength="10" Label="Field {n}"/>'
        for n in range(60)
    )
    kind = f'<EntityType Name="Thing0000"><Key><PropertyRef Name="Field1"/></Key>{fields}</EntityType>'
    count = size // (len(kind) + 58)
    kinds = "".join(kind.replace("Thing0000", f"Thing{n:04}") for n in range(count))
    sets = "".join(f'<EntitySet Name="Things{n:04}" EntityType="Big.Thing{n:04}"/>' for n in range(count))
    return f'<Schema Namespace="Big">{kinds}<EntityContainer Name="C">{sets}</EntityContainer></Schema>'
