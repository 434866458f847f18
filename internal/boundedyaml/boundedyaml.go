// Package boundedyaml is the one place where this module reads and writes YAML. An alias of a few bytes
// stands for a value of any size, and aliases of aliases multiply: 300 kB can name gigabytes. What a text
// comes to is therefore worked out from its nodes, in which an alias is a pointer, and a text that comes
// to more than its reader's limit is refused with ErrTooLarge before anything is built of it.
//
// All else, such as what an error says or which of two equal keys counts, is as in sigs.k8s.io/yaml, which
// does the conversion, as in upstream. Only the first document of a text is read, as there. Functions are
// safe for concurrent use.
package boundedyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	yamlv2 "go.yaml.in/yaml/v2"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
	"sigs.k8s.io/yaml/kyaml"
)

const (
	// Limit is a limit for files, in bytes: as much as an API server takes as the body of a request.
	Limit = 3 << 20
	// MaxDepth is how deeply values may be nested once aliases are followed: as deeply as encoding/json
	// and the parser of YAML let them be where they are written out.
	MaxDepth = 10000
)

var (
	// ErrTooLarge: the text, or what its aliases expand to, is larger than the limit.
	ErrTooLarge = errors.New("YAML is too large")
	// ErrTooDeep: what the aliases expand to is nested deeper than MaxDepth.
	ErrTooDeep = errors.New("YAML is nested too deeply")
)

// Check tells whether a text may be given to a reader that follows aliases. Its errors wrap ErrTooLarge or
// ErrTooDeep, or are those of the parser. A text without aliases is only compared with the limit.
func Check(data []byte, limit int) error {
	if len(data) > limit {
		return fmt.Errorf("%w: it has %d bytes, more than %d", ErrTooLarge, len(data), limit)
	}
	if bytes.IndexByte(data, '*') < 0 {
		return nil // no alias begins without one, in no encoding
	}
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(data, &document); err != nil {
		return malformed(data, err)
	}
	m := measure{limit: limit, known: map[*yamlv3.Node]extent{}}
	_, err := m.of(&document)
	return err
}

// malformed is the error of a text whose nodes could not be made out: that of the parser that converts, if
// it has one.
func malformed(data []byte, err error) error {
	if own := yamlv2.Unmarshal(data, &unread{}); own != nil {
		return own
	}
	return err
}

// unread is given the text's outermost value and leaves it alone: the text is parsed, no more.
type unread struct{}

// UnmarshalYAML implements yaml.Unmarshaler.
func (*unread) UnmarshalYAML(func(any) error) error { return nil }

// extent is what a node comes to with its aliases followed.
type extent struct{ bytes, depth int }

// measure works out extents, each once.
type measure struct {
	limit int
	known map[*yamlv3.Node]extent // of nodes with an anchor; zero while one is being measured
}

// of counts the bytes of scalars and one for every node, so that a text without aliases comes to no more
// than its length.
func (m *measure) of(n *yamlv3.Node) (extent, error) {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	if n.Anchor != "" {
		switch known, ok := m.known[n]; {
		case ok && known == extent{}:
			return known, fmt.Errorf("yaml: anchor '%s' value contains itself", n.Anchor)
		case ok:
			return known, nil
		}
		m.known[n] = extent{}
	}
	e := extent{bytes: 1 + len(n.Value), depth: 1}
	for _, child := range n.Content {
		inner, err := m.of(child)
		if err != nil {
			return e, err
		}
		e.bytes += inner.bytes
		e.depth = max(e.depth, inner.depth+1)
		switch {
		case e.bytes > m.limit:
			return e, fmt.Errorf("%w: its aliases expand to more than %d bytes; write the values out, or fewer of them", ErrTooLarge, m.limit)
		case e.depth > MaxDepth:
			return e, fmt.Errorf("%w: its aliases expand to more than %d levels", ErrTooDeep, MaxDepth)
		}
	}
	if n.Anchor != "" {
		m.known[n] = e
	}
	return e, nil
}

// ToJSON converts the first document of a text of at most limit bytes. Of equal keys the last counts.
func ToJSON(data []byte, limit int) ([]byte, error) {
	if err := Check(data, limit); err != nil {
		return nil, err
	}
	return yaml.YAMLToJSON(data)
}

// ToJSONStrict is ToJSON that refuses equal keys.
func ToJSONStrict(data []byte, limit int) ([]byte, error) {
	if err := Check(data, limit); err != nil {
		return nil, err
	}
	return yaml.YAMLToJSONStrict(data)
}

// maxDuplicates is how many equal keys are told of, as many as of JSON.
const maxDuplicates = 100

// Convert is ToJSON that also returns what ToJSONStrict would refuse: at most so many lines of it that its
// text is small, whatever the input.
func Convert(data []byte, limit int) (document []byte, duplicates, err error) {
	document, duplicates = ToJSONStrict(data, limit)
	if duplicates == nil {
		return document, nil, nil
	}
	if tooMuch := errors.Is(duplicates, ErrTooLarge) || errors.Is(duplicates, ErrTooDeep); tooMuch {
		return nil, nil, duplicates
	}
	if document, err = yaml.YAMLToJSON(data); err != nil {
		return nil, nil, err
	}
	var listed *yamlv2.TypeError
	if errors.As(duplicates, &listed) && len(listed.Errors) > maxDuplicates {
		more := fmt.Sprintf("and %d more", len(listed.Errors)-maxDuplicates)
		duplicates = &yamlv2.TypeError{Errors: append(listed.Errors[:maxDuplicates:maxDuplicates], more)}
	}
	return document, duplicates, nil
}

// Unmarshal reads the first document of a text of at most limit bytes into a value, as encoding/json does.
func Unmarshal(data []byte, into any, limit int) error {
	if err := Check(data, limit); err != nil {
		return err
	}
	return yaml.Unmarshal(data, into)
}

// FromJSON writes a JSON document as YAML.
func FromJSON(data []byte) ([]byte, error) {
	if err := own(data); err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(data)
}

// own checks a document that is to be written: it may be of any size, but JSON has no aliases.
func own(data []byte) error {
	if json.Valid(data) {
		return nil
	}
	return Check(data, max(len(data), Limit))
}

// Marshal writes a value as YAML, by its JSON.
func Marshal(value any) ([]byte, error) { return yaml.Marshal(value) }

// WriteKYAML writes a JSON or YAML document as KYAML (KEP-5295).
func WriteKYAML(w io.Writer, data []byte) error {
	if err := own(data); err != nil {
		return err
	}
	var encoder kyaml.Encoder
	return encoder.FromYAML(bytes.NewReader(data), w)
}

// MarshalKYAML writes a value as KYAML, by its JSON.
func MarshalKYAML(w io.Writer, value any) error {
	var encoder kyaml.Encoder
	return encoder.FromObject(value, w)
}
