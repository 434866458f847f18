package openapi_test

import (
	"os"
	"regexp"
	"testing"
)

// TestVersions: the definitions are generated from the types that are served.
func TestVersions(t *testing.T) {
	served, generated := versions(t, "../../go.mod"), versions(t, "../../tools/openapi/go.mod")
	for _, module := range []string{"k8s.io/api", "k8s.io/apimachinery"} {
		if served[module] == "" || served[module] != generated[module] {
			t.Errorf("%s %s is served, the definitions are of %q: set it in tools/openapi/go.mod and run make generate",
				module, served[module], generated[module])
		}
	}
}

func versions(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`).FindAllStringSubmatch(string(data), -1) {
		all[m[1]] = m[2]
	}
	return all
}
