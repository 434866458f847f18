package encryption

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
)

// Transformer turns values into their stored form and back. Implementations are safe for concurrent
// use. The key is that of the record in the store, such as /registry/secrets/default/one: those that
// authenticate bind the stored form to it, so that a value moved to another key is refused.
type Transformer interface {
	// Seal appends the stored form of value to dst and returns the result, as append does. With a
	// nil dst the result may be value itself. It keeps neither.
	Seal(ctx context.Context, dst []byte, key string, value []byte) ([]byte, error)
	// Open returns the value of a stored form, which may be stored itself, and whether Seal would by
	// now write another form, for example under a newer key. It must stand any input.
	Open(ctx context.Context, key string, stored []byte) (value []byte, stale bool, err error)
}

// Transformers chooses the transformer of a record. It is safe for concurrent use and may choose
// differently with time.
type Transformers interface {
	// For returns the transformer for the record of key; nil stands for [Identity].
	For(key string) Transformer
}

// TransformersFunc is a function that is Transformers.
type TransformersFunc func(key string) Transformer

// For calls f.
func (f TransformersFunc) For(key string) Transformer { return f(key) }

// ErrEncrypted: a value that is stored encrypted was to be read as it is.
var ErrEncrypted = errors.New("identity transformer tried to read encrypted data")

// Reserved starts every encrypted value, and no other.
const Reserved = "k8s:enc:"

// Identity leaves values as they are. Opening an encrypted value is ErrEncrypted.
type Identity struct{}

// Seal returns dst and value.
func (Identity) Seal(_ context.Context, dst []byte, _ string, value []byte) ([]byte, error) {
	if dst == nil {
		return value, nil
	}
	return append(dst, value...), nil
}

// Open returns stored.
func (Identity) Open(_ context.Context, _ string, stored []byte) ([]byte, bool, error) {
	if bytes.HasPrefix(stored, []byte(Reserved)) {
		return nil, false, ErrEncrypted
	}
	return stored, false, nil
}

// Choice is one of several transformers: stored forms start with Prefix, which the transformer
// does not see.
type Choice struct {
	Prefix      string // of stored values, by which the transformer is found
	Transformer Transformer
}

// FirstOf writes with the first of choices, and reads with whichever matches: what was not written
// by the first is stale. When several choices match, all are tried in order. None is the error where
// nothing matches; a choice without a prefix, such as the identity, is not asked for its reasons. Without any
// choice there is neither reading nor writing.
func FirstOf(none error, choices ...Choice) Transformer {
	return &firstOf{choices: slices.Clone(choices), none: none}
}

type firstOf struct {
	choices []Choice
	none    error
}

// room is what a sealed value needs at least besides itself, so that most are allocated once.
const room = 128

func (f *firstOf) Seal(ctx context.Context, dst []byte, key string, value []byte) ([]byte, error) {
	if len(f.choices) == 0 {
		return nil, f.none
	}
	first := f.choices[0]
	if first.Prefix == "" {
		return first.Transformer.Seal(ctx, dst, key, value)
	}
	if cap(dst)-len(dst) < len(first.Prefix)+len(value) {
		dst = slices.Grow(dst, len(first.Prefix)+len(value)+room)
	}
	return first.Transformer.Seal(ctx, append(dst, first.Prefix...), key, value)
}

func (f *firstOf) Open(ctx context.Context, key string, stored []byte) ([]byte, bool, error) {
	var failed []error
	for i, c := range f.choices {
		if !hasPrefix(stored, c.Prefix) {
			continue
		}
		value, stale, err := c.Transformer.Open(ctx, key, stored[len(c.Prefix):])
		switch {
		case err == nil:
			return value, stale || i > 0, nil
		case c.Prefix != "":
			if more, ok := err.(several); ok { //nolint:errorlint // only what this package put together is told apart
				failed = append(failed, more...)
			} else {
				failed = append(failed, err)
			}
		}
	}
	return nil, false, reasons(failed, f.none)
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}

// reasons joins errors in upstream's words: each reason once, in brackets where there are several.
func reasons(failed []error, none error) error {
	switch len(failed) {
	case 0:
		return none
	case 1:
		return failed[0]
	}
	return several(failed)
}

type several []error

func (s several) Error() string {
	var b bytes.Buffer
	told := map[string]bool{}
	for _, err := range s {
		text := err.Error()
		if told[text] {
			continue
		}
		if len(told) > 0 {
			b.WriteString(", ")
		}
		told[text] = true
		b.WriteString(text)
	}
	if len(told) == 1 {
		return b.String()
	}
	return "[" + b.String() + "]"
}

func (s several) Unwrap() []error { return s }

// Moved is for a store that names its records otherwise than the one whose format it shares, such as one on an
// etcd with a prefix of its own: where keys start with from, transformers see to in place of it, and bind stored
// forms to that. Transformers are chosen by the store's own keys.
func Moved(transformers Transformers, from, to string) Transformers {
	if from == to {
		return transformers
	}
	return TransformersFunc(func(key string) Transformer {
		t := transformers.For(key)
		if t == nil || !strings.HasPrefix(key, from) {
			return t
		}
		return moved{t, from, to}
	})
}

type moved struct {
	Transformer
	from, to string
}

func (m moved) key(key string) string { return m.to + strings.TrimPrefix(key, m.from) }

func (m moved) Seal(ctx context.Context, dst []byte, key string, value []byte) ([]byte, error) {
	return m.Transformer.Seal(ctx, dst, m.key(key), value)
}

func (m moved) Open(ctx context.Context, key string, stored []byte) ([]byte, bool, error) {
	return m.Transformer.Open(ctx, m.key(key), stored)
}
