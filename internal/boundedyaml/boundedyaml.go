// Package boundedyaml is the only package of this module that reads and writes YAML. A YAML alias of a few bytes can
// stand for a value of any size, and aliases of aliases multiply: 300 kB can stand for gigabytes. The expanded size of
// a text is therefore computed from its nodes, in which an alias is a pointer, and a text beyond its reader's limit is
// rejected with ErrTooLarge before it is decoded.
//
// Everything else, such as error texts and which of two equal keys counts, is as in sigs.k8s.io/yaml, which does the
// conversion here and upstream. As there, only the first document of a text is read. Functions are safe for concurrent
// use.
package boundedyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
	"sigs.k8s.io/yaml/kyaml"
)

const (
	// Limit is a limit for files, in bytes: the maximum size of a request body that an API server accepts.
	Limit = 3 << 20
	// MaxDepth is how deeply values may be nested once aliases are followed: as deeply as encoding/json and the YAML
	// parser allow without aliases.
	MaxDepth = 10000
)

var (
	// ErrTooLarge means that the text, or what its aliases expand to, is larger than the limit.
	ErrTooLarge = errors.New("YAML is too large")
	// ErrTooDeep means that aliases expand to values nested deeper than MaxDepth.
	ErrTooDeep = errors.New("YAML is nested too deeply")
	// ErrKey means that a map has a key that JSON cannot have.
	ErrKey = errors.New("a key in the YAML is null, a list or a map: quote it")
)

// WithoutValues returns ErrKey in place of the libraries' errors about such a key. These print what stands behind it, which
// may be a password.
func WithoutValues(err error) error {
	if err == nil {
		return nil
	}
	if text := err.Error(); strings.Contains(text, "unsupported map key of type") || strings.Contains(text, "invalid map key") {
		return ErrKey
	}
	return err
}

// Check returns nil if a text is safe for a reader that follows aliases. Its errors wrap ErrTooLarge or ErrTooDeep, or
// are those of the parser. A text without aliases is only compared with the limit. One with aliases that cannot be
// parsed into nodes is refused, even in the rare cases where the converting parser, an older one, makes something of it.
func Check(data []byte, limit int) error {
	if len(data) > limit {
		return fmt.Errorf("%w: it has %d bytes, more than %d", ErrTooLarge, len(data), limit)
	}
	if bytes.IndexByte(data, '*') < 0 {
		return nil // every alias begins with one, in any encoding
	}
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(data, &document); err != nil {
		return malformed(data, err)
	}
	m := measure{limit: limit, known: map[*yamlv3.Node]extent{}}
	_, err := m.of(&document)
	return err
}

// malformed is the error for a text whose nodes could not be parsed: that of the converting parser, if it fails too.
func malformed(data []byte, err error) error {
	if own := yamlv2.Unmarshal(data, &unread{}); own != nil {
		return own
	}
	return err
}

// unread ignores the text's outermost value, so that the text is only parsed.
type unread struct{}

// UnmarshalYAML implements yaml.Unmarshaler.
func (*unread) UnmarshalYAML(func(any) error) error { return nil }

// extent is the size and depth of a node with its aliases followed.
type extent struct{ bytes, depth int }

// measure computes extents, each once.
type measure struct {
	limit int
	known map[*yamlv3.Node]extent // of nodes with an anchor; zero while one is being measured
}

// of counts the bytes of scalars and one for every node, so that the extent of a text without aliases is at most its
// length.
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
	document, err := yaml.YAMLToJSON(data)
	return document, WithoutValues(err)
}

// ToJSONStrict is ToJSON that refuses equal keys.
func ToJSONStrict(data []byte, limit int) ([]byte, error) {
	if err := Check(data, limit); err != nil {
		return nil, err
	}
	document, err := yaml.YAMLToJSONStrict(data)
	return document, WithoutValues(err)
}

// maxDuplicates is how many equal keys are reported, as many as for JSON.
const maxDuplicates = 100

// Convert is ToJSON that also returns the error of ToJSONStrict, cut to a limited number of lines so that its text is
// small whatever the input. The errors about keys are the library's, which tell what stands behind them: they are for whoever
// has sent the text.
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
	return WithoutValues(yaml.Unmarshal(data, into))
}

// FromJSON writes a JSON document as YAML.
func FromJSON(data []byte) ([]byte, error) {
	if err := own(data); err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(data)
}

// own checks a document to be written: it may be of any size, since JSON has no aliases.
func own(data []byte) error {
	if json.Valid(data) {
		return nil
	}
	return Check(data, max(len(data), Limit))
}

// Marshal encodes a value as YAML, by way of its JSON.
func Marshal(value any) ([]byte, error) { return yaml.Marshal(value) }

// WriteKYAML writes a JSON or YAML document as KYAML (KEP-5295).
func WriteKYAML(w io.Writer, data []byte) error {
	if err := own(data); err != nil {
		return err
	}
	var encoder kyaml.Encoder
	return encoder.FromYAML(bytes.NewReader(data), w)
}

// MarshalKYAML writes a value as KYAML, by way of its JSON.
func MarshalKYAML(w io.Writer, value any) error {
	var encoder kyaml.Encoder
	return encoder.FromObject(value, w)
}
