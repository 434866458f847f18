package storagetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/storage"
)

func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func sameRecord(a, b storage.Record) bool {
	return a.Key == b.Key && a.Revision == b.Revision && bytes.Equal(a.Value, b.Value)
}

func sameEvents(a, b []storage.Event) bool {
	return slices.EqualFunc(a, b, func(a, b storage.Event) bool {
		return a.Type == b.Type && a.Key == b.Key && a.Revision == b.Revision &&
			sameBytes(a.Value, b.Value) && sameBytes(a.Prev, b.Prev)
	})
}

func showRecord(r storage.Record) string {
	return fmt.Sprintf("%q=%q@%d", r.Key, brief(r.Value), r.Revision)
}

func show(events []storage.Event) string {
	if len(events) == 0 {
		return "no events"
	}
	var b strings.Builder
	for _, e := range events {
		kind := map[storage.EventType]string{storage.Put: "put", storage.Delete: "delete"}[e.Type]
		fmt.Fprintf(&b, "  %d %s %q = %s, was %s\n", e.Revision, kind, e.Key, brief(e.Value), brief(e.Prev))
	}
	return b.String()
}

func brief(value []byte) string {
	switch {
	case value == nil:
		return "nil"
	case len(value) > 40:
		return fmt.Sprintf("%q… (%d bytes)", value[:40], len(value))
	}
	return fmt.Sprintf("%q", value)
}
