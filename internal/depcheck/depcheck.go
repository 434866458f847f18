// Package depcheck holds packages to an import closure: which packages outside the standard
// library and this module stand behind a package, counted by the go command.
package depcheck

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/keelson-dev/keelson"

// Closure returns the packages outside the standard library and this module that the package
// at the given path (relative to the module root, such as "authz/rbac") is built from.
func Closure(t *testing.T, pkg string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", module+"/"+pkg)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", pkg, err)
	}
	var deps []string
	for _, dep := range strings.Fields(string(out)) {
		if dep != module && !strings.HasPrefix(dep, module+"/") {
			deps = append(deps, dep)
		}
	}
	return deps
}

// AtMost fails the test when more than limit foreign packages stand behind pkg, or one that
// may stand nowhere.
func AtMost(t *testing.T, pkg string, limit int) {
	t.Helper()
	deps := Closure(t, pkg)
	if len(deps) > limit {
		t.Errorf("%s is built from %d foreign packages, at most %d allowed:\n%s", pkg, len(deps), limit, strings.Join(deps, "\n"))
	}
	for _, dep := range deps {
		if dep == "k8s.io/kubernetes" || strings.HasPrefix(dep, "k8s.io/kubernetes/") {
			t.Errorf("%s imports %s", pkg, dep)
		}
	}
}

// Siblings fails the test when pkg imports, directly or not, a package of this module that is
// not in allowed (paths relative to the module root).
func Siblings(t *testing.T, pkg string, allowed ...string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", module+"/"+pkg)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", pkg, err)
	}
	ok := map[string]bool{pkg: true}
	for _, a := range allowed {
		ok[a] = true
	}
	for _, dep := range strings.Fields(string(out)) {
		if rel, in := strings.CutPrefix(dep, module+"/"); in && !ok[rel] {
			t.Errorf("%s must not import %s", pkg, rel)
		}
	}
}
