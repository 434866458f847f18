package openapi

import "encoding/json"

// tables3 are the messages of openapiv3/OpenAPIv3.proto that documents need.
func tables3() tables {
	schema := schema3()
	content := byName(inner(&message{fields: map[string]field{"schema": {1, inner(schema)}}}))
	parameter := either(&message{extensions: 14, fields: map[string]field{
		"name": {1, text}, "in": {2, text}, "description": {3, text}, "required": {4, flag}, "schema": {10, inner(schema)},
	}})
	body := either(&message{extensions: 4, fields: map[string]field{
		"description": {1, text}, "content": {2, inner(content)}, "required": {3, flag},
	}})
	response := either(&message{extensions: 5, fields: map[string]field{"description": {1, text}, "content": {3, inner(content)}}})
	responses := &message{extensions: 3, others: field{2, inner(response)}, fields: map[string]field{"default": {1, inner(response)}}}
	operation := inner(&message{extensions: 13, fields: map[string]field{
		"tags": {1, texts}, "summary": {2, text}, "description": {3, text}, "operationId": {5, text},
		"parameters": {6, each(inner(parameter))}, "requestBody": {7, inner(body)}, "responses": {8, inner(responses)},
	}})
	item := &message{extensions: 14, fields: map[string]field{
		"get": {4, operation}, "put": {5, operation}, "post": {6, operation}, "delete": {7, operation}, "options": {8, operation},
		"head": {9, operation}, "patch": {10, operation},
		"parameters": {13, each(inner(parameter))},
	}}
	return tables{path: 1, item: item, definition: schema}
}

// either is an object or, if it has a $ref, a reference to one.
func either(m *message) *message {
	reference := &message{fields: map[string]field{"$ref": {1, text}, "summary": {2, text}, "description": {3, text}}}
	return &message{choose: func(object map[string]any) (int, *message) {
		if _, ok := object["$ref"]; ok {
			return 2, reference
		}
		return 1, m
	}}
}

// schema3 is a schema or a reference to one.
func schema3() *message {
	plain := &message{extensions: 36}
	m := either(plain)
	plain.fields = map[string]field{
		"nullable": {1, flag}, "readOnly": {3, flag}, "writeOnly": {4, flag}, "externalDocs": {6, inner(externalDocs(3))}, "example": {7, anyValue}, "deprecated": {8, flag},
		"title": {9, text}, "multipleOf": {10, double}, "maximum": {11, double}, "exclusiveMaximum": {12, flag},
		"minimum": {13, double}, "exclusiveMinimum": {14, flag}, "maxLength": {15, integer}, "minLength": {16, integer},
		"pattern": {17, text}, "maxItems": {18, integer}, "minItems": {19, integer}, "uniqueItems": {20, flag},
		"maxProperties": {21, integer}, "minProperties": {22, integer}, "required": {23, texts}, "enum": {24, each(anyValue)},
		"type": {25, text}, "allOf": {26, each(inner(m))}, "oneOf": {27, each(inner(m))}, "anyOf": {28, each(inner(m))},
		"not": {29, inner(plain)}, "items": {30, wrapped(each(inner(m)))}, "properties": {31, inner(byName(inner(m)))},
		"additionalProperties": {32, schemaOrFlag(inner(m))}, "default": {33, default3},
		"description": {34, text}, "format": {35, text},
	}
	return m
}

// externalDocs leads to documentation elsewhere.
func externalDocs(extensions int) *message {
	return &message{extensions: extensions, fields: map[string]field{"description": {1, text}, "url": {2, text}}}
}

// wrapped writes a value as field 1 of a message of its own.
func wrapped(write func([]byte, int, any) ([]byte, error)) func([]byte, int, any) ([]byte, error) {
	return wrappedAt(1, write)
}

func wrappedAt(at int, write func([]byte, int, any) ([]byte, error)) func([]byte, int, any) ([]byte, error) {
	return func(b []byte, number int, v any) ([]byte, error) {
		data, err := write(nil, at, v)
		return delimited(b, number, data), err
	}
}

// schemaOrFlag writes what additional properties are.
func schemaOrFlag(schema func([]byte, int, any) ([]byte, error)) func([]byte, int, any) ([]byte, error) {
	return func(b []byte, number int, v any) ([]byte, error) {
		write, inside := schema, 1
		if _, ok := v.(bool); ok {
			write, inside = flag, 2
		}
		data, err := write(nil, inside, v)
		return delimited(b, number, data), err
	}
}

// default3 writes a default. The message knows scalars only; of others it says that there is one.
func default3(b []byte, number int, v any) ([]byte, error) {
	var data []byte
	var err error
	switch v.(type) {
	case json.Number:
		data, err = double(nil, 1, v)
	case bool:
		data, err = flag(nil, 2, v)
	case string:
		data, err = text(nil, 3, v)
	}
	return delimited(b, number, data), err
}

func (c *content) document3(paths, definitions []byte) ([]byte, error) {
	v, err := decode([]byte(security))
	if err != nil {
		return nil, err
	}
	schemes, err := byName(inner(either(&message{extensions: 9, fields: map[string]field{
		"type": {1, text}, "description": {2, text}, "name": {3, text}, "in": {4, text},
	}}))).encode(v)
	if err != nil {
		return nil, err
	}
	components := delimited(delimited(nil, 1, definitions), 7, schemes)
	return delimited(delimited(head3(c.info), 4, paths), 5, components), nil
}

func head3(info map[string]string) []byte {
	return delimited(delimited(nil, 1, "3.0.0"), 2, delimited(delimited(nil, 1, info["title"]), 6, info["version"]))
}

// frame3 is what stands before the messages of paths and definitions of custom kinds, which take this many bytes.
func frame3(info map[string]string, paths, definitions int) (head, middle []byte) {
	inside := before(nil, 1, definitions)
	return before(head3(info), 4, paths), append(before(nil, 5, len(inside)+definitions), inside...)
}
