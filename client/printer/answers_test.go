package printer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client/message"
	"github.com/keelson-dev/keelson/client/printer"
)

// get is kubectl get with a server that answers from files.
type get struct {
	resource                 string
	output                   string
	options                  printer.Options
	watch, watchOnly, events bool
	clientPrint, lenient     bool
}

func parse(args []string) (get, error) {
	g := get{options: printer.Options{FS: os.DirFS(".")}}
	f := pflag.NewFlagSet("get", pflag.ContinueOnError)
	f.StringVar(&g.output, "output", "", "")
	f.BoolVar(&g.watch, "watch", false, "")
	f.BoolVar(&g.watchOnly, "watch-only", false, "")
	f.BoolVar(&g.events, "output-watch-events", false, "")
	f.StringVar(&g.options.Template, "template", "", "")
	f.BoolVar(&g.lenient, "allow-missing-template-keys", true, "")
	f.BoolVar(&g.options.ShowManagedFields, "show-managed-fields", false, "")
	f.StringVar(&g.options.SortBy, "sort-by", "", "")
	t := &g.options.Table
	f.BoolVar(&t.NoHeaders, "no-headers", false, "")
	f.BoolVar(&t.ShowLabels, "show-labels", false, "")
	f.StringSliceVar(&t.Labels, "label-columns", nil, "")
	f.BoolVar(&t.ShowKind, "show-kind", false, "")
	f.BoolVar(&t.Namespaces, "all-namespaces", false, "")
	server := f.Bool("server-print", true, "")
	err := f.Parse(args)
	g.clientPrint, g.options.StrictKeys = !*server, !g.lenient
	g.resource = strings.TrimSuffix(f.Arg(1), "s")
	if f.NArg() < 3 {
		g.resource += "s"
	}
	t.Kind = kindOf(g.resource)
	return g, err
}

func kindOf(resource string) schema.GroupKind {
	return schema.GroupKind{Kind: map[string]string{
		"pods": "Pod", "pod": "Pod", "configmaps": "ConfigMap", "secrets": "Secret", "services": "Service",
	}[resource]}
}

// groups prints several resources.
func (g get) groups(w io.Writer) error {
	var all []printer.Group
	for resource := range strings.SplitSeq(g.resource, ",") {
		objects, err := read(resource + ".table.json")
		if err != nil {
			return err
		}
		all = append(all, printer.Group{Kind: kindOf(resource), Namespaced: true, Objects: objects})
	}
	printed, err := printer.Groups(w, g.output, g.options, all...)
	if err == nil && !printed {
		err = errors.New("nothing was printed")
	}
	return err
}

// table says whether the server is asked for tables.
func (g get) table() bool {
	return (g.output == "" || g.output == "wide") && g.options.Template == "" && !g.clientPrint
}

func read(name string) ([]runtime.Object, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all []runtime.Object
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		var event metav1.WatchEvent
		if err := json.Unmarshal(raw, &event); err == nil && event.Type != "" {
			obj, err := runtime.Decode(unstructured.UnstructuredJSONScheme, event.Object.Raw)
			if err != nil {
				return nil, err
			}
			event.Object = runtime.RawExtension{Object: obj}
			all = append(all, &event)
			continue
		}
		obj, err := runtime.Decode(unstructured.UnstructuredJSONScheme, raw)
		if err != nil {
			return nil, err
		}
		all = append(all, obj)
	}
}

// run prints what kubectl prints. It changes nothing in what it prints.
func (g get) run(w io.Writer) error {
	p, err := printer.New(g.output, g.options)
	if err != nil {
		return err
	}
	if strings.Contains(g.resource, ",") {
		return g.groups(w)
	}
	form := ".json"
	if g.table() {
		form = ".table.json"
	}
	objects, err := read(g.resource + form)
	if err != nil {
		return err
	}
	a := printer.NewAligned(w)
	switch {
	case g.watchOnly, g.watch:
		if err := g.follow(p, a, objects[0], form); err != nil {
			return err
		}
	case !g.table() && !g.clientPrint && meta.IsListType(objects[0]):
		items, err := meta.ExtractList(objects[0])
		if err != nil {
			return err
		}
		list, err := printer.List(items...)
		if err != nil {
			return err
		}
		return p.Print(w, list)
	default:
		if err := p.Print(a, objects[0]); err != nil {
			return err
		}
	}
	return a.Flush()
}

// follow prints a list and then a watch, each event on its own.
func (g get) follow(p printer.Printer, a *printer.Aligned, list runtime.Object, form string) error {
	first := []runtime.Object{list}
	if meta.IsListType(list) {
		var err error
		if first, err = meta.ExtractList(list); err != nil {
			return err
		}
	}
	if g.watchOnly { // the headers of what is not shown count
		first = nil
	}
	for _, obj := range first {
		if g.events {
			obj = &metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Object: obj}}
		}
		if err := p.Print(a, obj); err != nil {
			return err
		}
	}
	events, err := read(g.resource + ".watch" + form)
	if err != nil {
		return err
	}
	for _, obj := range events {
		if !g.events {
			obj = obj.(*metav1.WatchEvent).Object.Object
		}
		if err := errors.Join(a.Flush(), p.Print(a, obj), a.Flush()); err != nil {
			return err
		}
	}
	return nil
}

// ownWords are failures that kubectl does not tell, or tells with the whole object.
func ownWords() map[string]string {
	return map[string]string{
		"get pods --sort-by=.spec.none":                                          `error: couldn't find any field with path "{.spec.none}" in the list of objects`,
		"get pods --sort-by={.a}{.b}":                                            "error: unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'",
		"get pods --output=jsonpath={.none} --allow-missing-template-keys=false": `error: error executing jsonpath "{.none}": none is not found`,
	}
}

func TestAnswers(t *testing.T) {
	t.Chdir("testdata")
	data, err := os.ReadFile("answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(strings.TrimPrefix(string(data), "$ "), "\n$ ")
	if len(blocks) < 80 {
		t.Fatalf("only %d answers", len(blocks))
	}
	for _, block := range blocks {
		command, answer, _ := strings.Cut(block, "\n")
		t.Run(command, func(t *testing.T) {
			g, err := parse(words(command))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = g.run(&out)
			want, failure := "", ""
			if text, failed := strings.CutPrefix(answer, "! "); failed {
				failure = strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n! ", "\n")
			} else {
				want = strings.TrimSuffix(strings.ReplaceAll(strings.TrimPrefix(strings.TrimSuffix(answer, "\n"), "> "), "\n> ", "\n"), "$")
			}
			if ours := ownWords()[command]; ours != "" {
				failure = ours
			}
			if got := message.Of(err); got != failure {
				t.Fatalf("fails with %q, kubectl with %q", got, failure)
			}
			if diff := cmp.Diff(want, out.String()); diff != "" && err == nil {
				t.Errorf("kubectl's (-), ours (+):\n%s", diff)
			}
		})
	}
}

// words splits a line at spaces outside single quotes.
func words(line string) []string {
	var all []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}
