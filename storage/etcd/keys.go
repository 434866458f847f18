package etcd

import (
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keelson-dev/keelson/storage"
)

// keys translates between the store's keys and etcd's: it replaces the leading trim by prefix.
type keys struct {
	trim, prefix string
}

// encode returns the key in etcd.
func (k keys) encode(key string) (string, error) {
	if key == "" {
		return "", storage.ErrEmptyKey
	}
	rest, ok := strings.CutPrefix(key, k.trim)
	if !ok {
		return "", fmt.Errorf("key %q does not begin with %q", key, k.trim)
	}
	if k.prefix+rest == "" {
		return "", storage.ErrEmptyKey
	}
	return k.prefix + rest, nil
}

// decode returns the store's key for one of etcd's within a span.
func (k keys) decode(key []byte) string { return k.trim + string(key[len(k.prefix):]) }

// span is a range of etcd's keys, from the first to before end. Its zero value has no keys.
type span struct {
	from, end string
}

// nothing reports whether the span is empty.
func (s span) nothing() bool { return s.end != toEnd && s.from >= s.end }

const toEnd = "\x00" // etcd's notation for a range without end

// span returns the range of the keys that begin with prefix and sort after the given key.
func (k keys) span(prefix, after string) span {
	var s span
	switch rest, ok := strings.CutPrefix(prefix, k.trim); {
	case ok:
		s = within(k.prefix + rest)
	case strings.HasPrefix(k.trim, prefix):
		s = within(k.prefix)
	default:
		return s
	}
	if after == "" {
		return s
	}
	rest, ok := strings.CutPrefix(after, k.trim)
	switch {
	case ok:
		s.from = max(s.from, k.prefix+rest+"\x00")
	case after > k.trim: // past all keys
		return span{}
	}
	return s
}

// within is the span of the keys that begin with prefix.
func within(prefix string) span {
	if prefix == "" {
		return span{"\x00", toEnd}
	}
	return span{prefix, clientv3.GetPrefixRangeEnd(prefix)}
}
