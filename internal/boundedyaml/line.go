package boundedyaml

import (
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Line returns the line, from 1 on, of a field of the first document, such as "spec.rules[0].verbs", or of the innermost field on
// the way to it that there is. It returns 0 if it cannot tell. The text must have passed Check.
func Line(data []byte, field string) int {
	var document yamlv3.Node
	if yamlv3.Unmarshal(data, &document) != nil || len(document.Content) == 0 {
		return 0
	}
	at, line := document.Content[0], document.Content[0].Line
	for _, step := range steps(field) {
		if at.Kind == yamlv3.AliasNode {
			at = at.Alias
		}
		next, key := child(at, step)
		if next == nil {
			break
		}
		at, line = next, key.Line
	}
	return line
}

// steps splits a path into keys and indexes.
func steps(field string) []string {
	return strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

// child returns what is below a node, and the node that stands where it begins.
func child(of *yamlv3.Node, step string) (value, key *yamlv3.Node) {
	switch of.Kind {
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(of.Content); i += 2 {
			if of.Content[i].Value == step {
				return of.Content[i+1], of.Content[i]
			}
		}
	case yamlv3.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(of.Content) {
			return of.Content[i], of.Content[i]
		}
	}
	return nil, nil
}
