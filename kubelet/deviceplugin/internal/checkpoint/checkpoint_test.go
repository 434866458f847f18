package checkpoint_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/keelson-dev/keelson/kubelet/deviceplugin/internal/checkpoint"
)

func TestRoundTrip(t *testing.T) {
	entries := []checkpoint.PodDevicesEntry{{
		PodUID: "uid", ContainerName: "main", ResourceName: "example.com/device", DeviceIDs: checkpoint.DevicesPerNUMA{0: {"a"}, -1: {"b", "c"}}, AllocResp: []byte{1, 2},
	}}
	registered := map[string][]string{"example.com/device": {"a", "b", "c"}}
	data, err := checkpoint.Encode(entries, registered)
	if err != nil {
		t.Fatal(err)
	}
	gotEntries, gotRegistered, err := checkpoint.Decode(data)
	if err != nil || !reflect.DeepEqual(gotEntries, entries) || !reflect.DeepEqual(gotRegistered, registered) {
		t.Errorf("got %+v, %v, %v", gotEntries, gotRegistered, err)
	}
	changed := bytes.Replace(data, []byte("main"), []byte("side"), 1)
	if gotEntries, gotRegistered, err := checkpoint.Decode(changed); !errors.Is(err, checkpoint.ErrCorrupt) || gotEntries != nil || gotRegistered != nil {
		t.Errorf("of changed data: %v, %v, %v", gotEntries, gotRegistered, err)
	}
	if _, _, err := checkpoint.Decode(data[1:]); err == nil || errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("of no JSON: %v", err)
	}
}
