package plugins_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/plugins"
)

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want plugins.Config
	}{
		"list": {
			`{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}, {"type": "portmap", "capabilities": {"portMappings": true, "b": false, "a": true}}]}`,
			plugins.Config{Name: "net", Version: "1.0.0", Plugins: []plugins.Plugin{{Type: "bridge", IPAM: "host-local"}, {Type: "portmap", Capabilities: []string{"a", "portMappings"}}}},
		},
		"single": {
			`{"cniVersion": "0.4.0", "name": "net", "type": "bridge"}`,
			plugins.Config{Name: "net", Version: "0.4.0", Plugins: []plugins.Plugin{{Type: "bridge"}}},
		},
		"no version": {
			`{"name": "net", "plugins": [{"type": "bridge"}]}`,
			plugins.Config{Name: "net", Version: "0.1.0", Plugins: []plugins.Plugin{{Type: "bridge"}}},
		},
		"several versions": {
			`{"cniVersion": "0.4.0", "cniVersions": ["1.0.0", "1.1.0", "9.0.0"], "name": "net", "plugins": [{"type": "bridge"}]}`,
			plugins.Config{Name: "net", Version: "1.1.0", Plugins: []plugins.Plugin{{Type: "bridge"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plugins.Parse("f", []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if got.File != "f" || got.Name != test.want.Name || got.Version != test.want.Version || !reflect.DeepEqual(got.Plugins, test.want.Plugins) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "10.conf: no JSON: line 1: unexpected end of JSON input",
		"{\n\n\"name\": x}": "10.conf: no JSON: line 3: invalid character 'x' looking for beginning of value",
		"[]":                "10.conf: json: cannot unmarshal array into Go value of type map[string]json.RawMessage",
		`{"plugins": []}`:   "10.conf: no name",
		`{"name": 7}`:       "10.conf: invalid name type float64",
		`{"name": "a/../b", "plugins": [{"type": "x"}]}`:                          "10.conf: name: invalid characters found in network name; a/../b",
		`{"name": "n", "plugins": []}`:                                            "10.conf: no plugins in list",
		`{"name": "n", "plugins": [{"type": "a"}, {}]}`:                           "10.conf: plugins[1].type: names no plugin",
		`{"name": "n", "plugins": [{"type": "../a"}]}`:                            `10.conf: plugins[0].type: "../a" is no name of an executable`,
		`{"name": "n", "plugins": [{"type": "a", "ipam": {"type": "b/c"}}]}`:      `10.conf: plugins[0].ipam.type: "b/c" is no name of an executable`,
		`{"name": "n", "plugins": [{"type": 1}]}`:                                 "10.conf: plugins[].type: json: cannot unmarshal number",
		`{"name": "n", "plugins": [{"type": "a", "capabilities": {"x": "yes"}}]}`: "10.conf: plugins[].capabilities",
		`{"name": "n", "plugins": {"type": "a"}}`:                                 "10.conf: plugins: json: cannot unmarshal object",
		`{"name": "n", "cniVersion": "2.0.0", "plugins": [{"type": "a"}]}`:        `10.conf: cniVersion: "2.0.0" is not one of 0.1.0,`,
		`{"name": "n", "disableCheck": "maybe", "plugins": [{"type": "a"}]}`:      "10.conf: invalid value \"maybe\" for disableCheck",
		`{"name": "n", "type": "a", "capabilities": ["portMappings"]}`:            "10.conf: ",
		`{"name": "n", "loadOnlyInlinedPlugins": true}`:                           "10.conf: `loadOnlyInlinedPlugins` is true, and no 'plugins' key",
	} {
		_, err := plugins.Parse("10.conf", []byte(text))
		var config *cni.ConfigError
		if !errors.As(err, &config) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// FuzzParse: whatever is read, what comes out can be written and read again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "null", "{}", `{"name": "n", "type": "a"}`, `{"name": "n", "plugins": [null]}`, `{"name": "n", "type": "a", "plugins": null}`,
		`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "a", "ipam": {"type": "b"}, "capabilities": {"x": true}}]}`,
		`{"cniVersion": "", "cniVersions": ["1.0.0", "x"], "name": "n", "plugins": [{"type": "a", "dns": {"search": ["a"]}}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := plugins.Parse("f", data)
		if err != nil {
			if config := new(cni.ConfigError); !errors.As(err, &config) || config.File != "f" {
				t.Fatalf("error %v", err)
			}
			return
		}
		if len(c.Plugins) == 0 {
			return // its plugins are elsewhere
		}
		again, err := c.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		d, err := plugins.Parse("f", again)
		if err != nil || d.Name != c.Name || d.Version != c.Version || !reflect.DeepEqual(d.Plugins, c.Plugins) {
			t.Fatalf("%s became %s: %+v, %v", data, again, d, err)
		}
	})
}

func TestDirectory(t *testing.T) {
	const valid = `{"cniVersion": "1.0.0", "name": "%", "plugins": [{"type": "a"}]}`
	named := func(name string) string { return strings.ReplaceAll(valid, "%", name) }
	for name, test := range map[string]struct {
		files   map[string]string
		want    string   // the name of the configuration that counts
		skipped []string // what the errors say
	}{
		"first in order":        {map[string]string{"20.conflist": named("b"), "10.json": named("a"), "30.conf": named("c")}, "a", nil},
		"other names":           {map[string]string{"10.yaml": "", "10.conflist.bak": "", "20.conf": named("b"), "05.conflist/x": ""}, "b", nil},
		"invalid comes first":   {map[string]string{"10.conflist": "{", "15.conf": `{"name": "n"}`, "20.conf": named("b")}, "b", []string{"10.conflist: no JSON", "15.conf: plugins: names no plugin"}},
		"plugins of their own":  {map[string]string{"10.conflist": `{"name": "net"}`, "net/1.conf": `{"type": "x"}`, "net/2.conf": `{"type": "y"}`}, "net", nil},
		"bad plugin of its own": {map[string]string{"10.conflist": `{"name": "net"}`, "net/1.conf": `{"type": 3}`, "20.conf": named("b")}, "b", []string{"net: "}},
		"none valid":            {map[string]string{"10.conflist": "{"}, "", []string{"10.conflist: no JSON"}},
		"none":                  {nil, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range test.files {
				path := filepath.Join(dir, file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			c, skipped, err := plugins.Load(dir)
			if c.Name != test.want || (err != nil) != (test.want == "") || err != nil && (!errors.Is(err, cni.ErrNoConfig) || !errors.Is(err, cni.ErrNotReady)) {
				t.Errorf("got %+v, %v", c, err)
			}
			if len(skipped) != len(test.skipped) {
				t.Fatalf("skipped %v", skipped)
			}
			for i, s := range skipped {
				if !strings.Contains(s.Error(), test.skipped[i]) {
					t.Errorf("skipped %v, want %s", s, test.skipped[i])
				}
				if err != nil && !strings.Contains(err.Error(), s.Error()) {
					t.Errorf("%v does not say %v", err, s)
				}
			}
		})
	}
}
