package apiserver_test

import (
	"encoding/json"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/version"

	"github.com/keelson-dev/keelson/apiserver"
)

func TestVersion(t *testing.T) {
	s := newServer(t, apiserver.Options{Version: version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1", GitCommit: "c0ffee", GitTreeState: "clean"}})
	w := call(s, "ann", "GET", "/version")
	var got map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"major": "1", "minor": "37", "emulationMajor": "1", "emulationMinor": "37", "minCompatibilityMajor": "1", "minCompatibilityMinor": "36",
		"gitVersion": "v1.37.1", "gitCommit": "c0ffee", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
		"goVersion": runtime.Version(), "compiler": runtime.Compiler, "platform": runtime.GOOS + "/" + runtime.GOARCH,
	}
	if diff := cmp.Diff(want, got); diff != "" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%v %s", w.Header(), diff)
	}
	full := version.Info{
		Major: "2", Minor: "1", EmulationMajor: "1", EmulationMinor: "9", MinCompatibilityMajor: "1", MinCompatibilityMinor: "8",
		GitVersion: "v2.1.0", GitCommit: "c", GitTreeState: "dirty", BuildDate: "d", GoVersion: "go", Compiler: "gc", Platform: "p",
	}
	if diff := cmp.Diff(full, apiserver.FillVersion(full)); diff != "" {
		t.Errorf("what is said is changed: %s", diff)
	}
	if v := apiserver.FillVersion(version.Info{Major: "1", Minor: "37+"}); v.EmulationMinor != "" {
		t.Errorf("a minor version that is no number: %+v", v)
	}
}
