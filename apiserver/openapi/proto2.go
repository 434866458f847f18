package openapi

import "encoding/binary"

// tables2 are the messages of openapiv2/OpenAPIv2.proto that documents need.
func tables2() tables {
	schema := schema2()
	parameter := parameter2Message(schema)
	// A response's schema is one of two kinds, a response one of two things; these are the first.
	response := &message{extensions: 5, fields: map[string]field{"description": {1, text}, "schema": {2, wrapped(inner(schema))}}}
	responses := &message{extensions: 2, others: field{1, wrapped(inner(response))}}
	items := each(inner(&message{choose: func(object map[string]any) (int, *message) {
		if _, ok := object["$ref"]; ok {
			return 2, &message{fields: map[string]field{"$ref": {1, text}, "description": {2, text}}}
		}
		return 1, parameter
	}}))
	operation := inner(&message{extensions: 13, fields: map[string]field{
		"tags": {1, texts}, "summary": {2, text}, "description": {3, text}, "operationId": {5, text},
		"produces": {6, texts}, "consumes": {7, texts}, "parameters": {8, items}, "responses": {9, inner(responses)},
		"schemes": {10, texts},
	}})
	item := &message{extensions: 10, fields: map[string]field{
		"get": {2, operation}, "put": {3, operation}, "post": {4, operation}, "delete": {5, operation}, "options": {6, operation},
		"head": {7, operation}, "patch": {8, operation},
		"parameters": {9, items},
	}}
	return tables{path: 2, item: item, definition: schema}
}

func schema2() *message {
	m := &message{extensions: 31}
	m.fields = map[string]field{
		"$ref": {1, text}, "format": {2, text}, "title": {3, text}, "description": {4, text}, "default": {5, anyValue},
		"multipleOf": {6, double}, "maximum": {7, double}, "exclusiveMaximum": {8, flag}, "minimum": {9, double},
		"exclusiveMinimum": {10, flag}, "maxLength": {11, integer}, "minLength": {12, integer}, "pattern": {13, text},
		"maxItems": {14, integer}, "minItems": {15, integer}, "uniqueItems": {16, flag}, "maxProperties": {17, integer},
		"minProperties": {18, integer}, "required": {19, texts}, "enum": {20, each(anyValue)},
		"additionalProperties": {21, schemaOrFlag(inner(m))}, "type": {22, wrapped(texts)}, "items": {23, wrapped(each(inner(m)))},
		"allOf": {24, each(inner(m))}, "properties": {25, inner(byName(inner(m)))}, "readOnly": {27, flag}, "externalDocs": {29, inner(externalDocs(3))}, "example": {30, anyValue},
	}
	return m
}

// parameter2Message is a parameter by where it is.
func parameter2Message(schema *message) *message {
	body := &message{extensions: 6, fields: map[string]field{
		"description": {1, text}, "name": {2, text}, "in": {3, text}, "required": {4, flag}, "schema": {5, inner(schema)},
	}}
	query := &message{extensions: 23, fields: map[string]field{
		"required": {1, flag}, "in": {2, text}, "description": {3, text}, "name": {4, text}, "type": {6, text}, "format": {7, text},
		"uniqueItems": {20, flag},
	}}
	path := &message{extensions: 22, fields: map[string]field{
		"required": {1, flag}, "in": {2, text}, "description": {3, text}, "name": {4, text}, "type": {5, text}, "format": {6, text},
		"uniqueItems": {19, flag},
	}}
	simple := &message{choose: func(object map[string]any) (int, *message) {
		if object["in"] == inPath {
			return 4, path
		}
		return 3, query
	}}
	return &message{choose: func(object map[string]any) (int, *message) {
		if object["in"] == "body" {
			return 1, body
		}
		return 2, simple
	}}
}

// frame2 is what stands around the messages of paths and definitions, which take this many bytes.
func frame2(info map[string]string, shared parameters2, paths, definitions int) (head, middle, tail []byte, err error) {
	data, err := marshal(shared)
	if err != nil {
		return nil, nil, nil, err
	}
	v, err := decode(data)
	if err != nil {
		return nil, nil, nil, err
	}
	parameters, err := byName(inner(parameter2Message(schema2()))).encode(v)
	if err != nil {
		return nil, nil, nil, err
	}
	if v, err = decode([]byte(security)); err != nil {
		return nil, nil, nil, err
	}
	key := &message{extensions: 5, fields: map[string]field{"type": {1, text}, "name": {2, text}, "in": {3, text}, "description": {4, text}}}
	schemes, err := byName(wrappedAt(2, inner(key))).encode(v)
	if err != nil {
		return nil, nil, nil, err
	}
	about := delimited(delimited(nil, 1, info["title"]), 2, info["version"])
	requirement := delimited(nil, 1, delimited(delimited(nil, 1, "BearerToken"), 2, ""))
	head = before(delimited(delimited(nil, 1, "2.0"), 2, about), 8, paths)
	tail = delimited(delimited(delimited(nil, 10, parameters), 12, requirement), 13, schemes)
	return head, before(nil, 9, definitions), tail, nil
}

// before writes what stands before a message of this size.
func before(b []byte, number, size int) []byte {
	return binary.AppendUvarint(tag(b, number, prefixed), uint64(size)) //nolint:gosec // not negative
}
