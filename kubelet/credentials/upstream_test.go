package credentials_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/keelson-dev/keelson/kubelet/credentials"
)

// TestAsUpstream compares with what the keyring of Kubernetes 1.36.1 (pkg/credentialprovider) found
// for random configurations.
func TestAsUpstream(t *testing.T) {
	data, err := os.ReadFile("testdata/upstream.json")
	if err != nil {
		t.Fatal(err)
	}
	var facts []struct {
		Entries []string
		Image   string
		Users   []string
	}
	if err := json.Unmarshal(data, &facts); err != nil {
		t.Fatal(err)
	}
	hits := 0
	for _, f := range facts {
		k, err := credentials.New(secrets{"s": configJSON(auths(f.Entries...))}, credentials.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.For(t.Context(), newPod("s"), f.Image)
		if err != nil {
			t.Fatal(err)
		}
		list := []string{}
		for _, a := range got {
			list = append(list, a.Username)
		}
		if len(list) > 0 {
			hits++
		}
		if want, _ := json.Marshal(f.Users); jsonOf(t, list) != string(want) {
			t.Errorf("%s with %q: got %q, want %q", f.Image, f.Entries, list, f.Users)
		}
	}
	if hits < 100 || len(facts)-hits < 100 {
		t.Errorf("%d of %d images have credentials: that proves little", hits, len(facts))
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
