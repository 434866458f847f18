package registry

import (
	"testing"

	"github.com/keelson-dev/keelson/storage"
)

// TestDefers: a change is kept only as long as the table is being read; after that it must be applied at once.
func TestDefers(t *testing.T) {
	table := newTable(&Options{}, newWaker())
	if table.defers(storage.Event{}) {
		t.Error("a change is kept that nobody will apply")
	}
	table.deferred = &[]storage.Event{}
	if !table.defers(storage.Event{}) || len(*table.deferred) != 1 {
		t.Errorf("kept: %v", *table.deferred)
	}
}
