// Command openapi writes the archive of definitions that package apiserver/openapi embeds: one entry for each Go
// package of API types, as OpenAPI v2 and v3, made from the Go types and their comments by upstream's generator and
// builders.
//
//	go run . ARCHIVE
//
// The generator writes Go code, which is compiled, run once and discarded. go.mod pins the versions of the API types.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	_ "k8s.io/api/core/v1" // keeps the module in go.mod: only generated code imports it
	"k8s.io/gengo/v2"
	"k8s.io/gengo/v2/generator"
	"k8s.io/kube-openapi/cmd/openapi-gen/args"
	"k8s.io/kube-openapi/pkg/generators"
)

// packages are those whose types get definitions. A group-version more is a line more.
func packages() []string {
	list := strings.Fields(`
		k8s.io/apimachinery/pkg/api/resource
		k8s.io/apimachinery/pkg/apis/meta/v1
		k8s.io/apimachinery/pkg/runtime
		k8s.io/apimachinery/pkg/util/intstr
		k8s.io/apimachinery/pkg/version
	`)
	for _, gv := range strings.Fields(`
		admissionregistration/v1
		apps/v1
		authentication/v1
		authorization/v1
		autoscaling/v1
		autoscaling/v2
		batch/v1
		certificates/v1
		coordination/v1
		core/v1
		discovery/v1
		events/v1
		flowcontrol/v1
		networking/v1
		node/v1
		policy/v1
		rbac/v1
		resource/v1
		scheduling/v1
		scheduling/v1alpha3
		storage/v1
	`) {
		list = append(list, "k8s.io/api/"+gv)
	}
	return list
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: openapi ARCHIVE")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(archive string) error {
	const dir = "definitions"
	generated := []string{filepath.Join(dir, "zz_definitions.go"), filepath.Join(dir, "zz_scheme.go")}
	defer func() {
		for _, name := range generated {
			_ = os.Remove(name) // what is not there need not go
		}
	}()
	if err := definitions(dir, filepath.Base(generated[0])); err != nil {
		return err
	}
	if err := scheme(generated[1]); err != nil {
		return err
	}
	cmd := exec.Command("go", "run", "-tags", "generated", "./"+dir, archive)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// definitions writes the Go code that returns the definitions of all packages.
func definitions(dir, file string) error {
	report, err := os.CreateTemp("", "api-rules")
	if err != nil {
		return err
	}
	defer os.Remove(report.Name())
	if err := report.Close(); err != nil {
		return err
	}
	a := args.New()
	a.OutputDir, a.OutputFile = dir, file
	a.OutputPkg = "github.com/keelson-dev/keelson/tools/openapi/definitions"
	a.ReportFilename = report.Name() // complaints about upstream's types are not ours
	a.OutputModelNameFile = "zz_generated.model_name.go"
	a.ReadOnlyPkgs = []string{"k8s.io"}
	targets := func(c *generator.Context) []generator.Target {
		return generators.GetOpenAPITargets(c, a, []byte("//go:build generated\n\n"))
	}
	if err := gengo.Execute(generators.NameSystems(), generators.DefaultNameSystem(), targets, gengo.StdBuildTag, packages()); err != nil {
		return fmt.Errorf("generate definitions: %w", err)
	}
	return rename(filepath.Join(dir, file))
}

// rename makes the generated file part of the program that uses it.
func rename(file string) error {
	code, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !bytes.Contains(code, []byte("\npackage definitions\n")) {
		return errors.New("generate definitions: the generator wrote another package clause than package definitions")
	}
	return os.WriteFile(file, bytes.Replace(code, []byte("\npackage definitions\n"), []byte("\npackage main\n"), 1), 0o600)
}

// scheme writes the Go code that knows the types of all groups of k8s.io/api: their kinds go into
// the definitions. Upstream's API server knows them all but the documents of discovery.
func scheme(file string) error {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{.Dir}}", "k8s.io/api/...").Output()
	if err != nil {
		return fmt.Errorf("list the packages of k8s.io/api: %w", err)
	}
	var groups []string
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, err := os.Stat(filepath.Join(dir, "register.go")); err == nil && !strings.HasPrefix(path, "k8s.io/api/apidiscovery/") {
			groups = append(groups, path)
		}
	}
	t := template.Must(template.New("").Parse(`//go:build generated

package main

import (
	"k8s.io/apimachinery/pkg/runtime"
{{range $i, $path := .}}
	group{{$i}} "{{$path}}"{{end}}
)

func addToScheme(s *runtime.Scheme) error {
	b := runtime.SchemeBuilder{ {{range $i, $path := .}}
		group{{$i}}.AddToScheme,{{end}}
	}
	return b.AddToScheme(s)
}
`))
	var code bytes.Buffer
	if err := t.Execute(&code, groups); err != nil {
		return err
	}
	return os.WriteFile(file, code.Bytes(), 0o600)
}
