package printer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Printer writes objects, lists and watch events in one form. It does not change them.
type Printer interface {
	Print(w io.Writer, obj runtime.Object) error
}

// Func is a Printer that is a function.
type Func func(w io.Writer, obj runtime.Object) error

// Print calls the function.
func (f Func) Print(w io.Writer, obj runtime.Object) error { return f(w, obj) }

// ErrFormat: no printer has the form that was asked for.
var ErrFormat = errors.New("unable to match a printer suitable for the output format")

// Options of a Printer.
type Options struct {
	// Operation is what was done to the object, such as "created" or "created (dry run)". Without a
	// form the printer says so: "pod/web created". When it is empty, the form is a table.
	Operation string

	// Template is that of the flag --template; the form says of which kind it is: go-template when
	// it is empty.
	Template string
	// StrictKeys makes a key that is not there an error in templates, as the flag
	// --allow-missing-template-keys=false does.
	StrictKeys bool
	// FS is where the files of forms such as jsonpath-file are. The machine's own when nil.
	FS fs.FS

	// ShowManagedFields keeps managedFields in JSON and YAML.
	ShowManagedFields bool
	// Kinds tells the kinds of typed objects that do not say theirs, such as
	// k8s.io/client-go/kubernetes/scheme.Scheme. Without it they are errors in most forms.
	Kinds runtime.ObjectTyper

	// SortBy is a JSONPath by whose values the items of a list and the rows of a table are sorted.
	SortBy string
	Table  Table
}

// Table says how tables look.
type Table struct {
	NoHeaders  bool     // for custom columns, too
	Namespaces bool     // a column with the namespace before the others
	ShowLabels bool     // a column with all labels behind the others
	Labels     []string // columns with the values of these labels
	ShowKind   bool     // names are written with the Kind: "pod/web"
	Kind       schema.GroupKind
}

// The forms, by how they are written.
const (
	jsonPath          = "jsonpath"
	jsonPathJSON      = "jsonpath-as-json"
	jsonPathFile      = "jsonpath-file"
	goTemplate        = "go-template"
	goTemplateFile    = "go-template-file"
	goTemplateOld     = "template"
	goTemplateFileOld = "templatefile"
	customColumns     = "custom-columns"
	customColumnsFile = "custom-columns-file"
)

// New makes the printer of a form, which is the value of kubectl's flag --output: "", "wide",
// "name", "json", "yaml", "kyaml", "jsonpath=TEMPLATE", "jsonpath-as-json=TEMPLATE",
// "jsonpath-file=PATH", "go-template=TEMPLATE", "go-template-file=PATH",
// "custom-columns=HEADER:PATH,…" or "custom-columns-file=PATH". With an Operation there are no
// tables and custom columns, as in kubectl create.
func New(form string, o Options) (Printer, error) {
	if form == "" && o.Template != "" {
		form = goTemplate
	}
	p, err := build(form, o)
	if err != nil {
		return nil, err
	}
	if o.Kinds != nil {
		p = typed(p, o.Kinds)
	}
	if o.SortBy != "" {
		p = sorted(p, o.SortBy)
	}
	return p, nil
}

func build(form string, o Options) (Printer, error) {
	switch strings.ToLower(form) {
	case "json":
		return o.managed(Func(printJSON)), nil
	case "yaml":
		return o.managed(&yamlPrinter{}), nil
	case "kyaml":
		return o.managed(Func(printKYAML)), nil
	case "name":
		return names(""), nil
	}
	kind, argument := o.split(form)
	switch kind {
	case jsonPath, jsonPathJSON, jsonPathFile:
		return o.jsonPath(kind, argument)
	case goTemplate, goTemplateFile, goTemplateOld, goTemplateFileOld:
		return o.goTemplate(kind, argument)
	}
	switch {
	case o.Operation != "" && form == "":
		return names(o.Operation), nil
	case o.Operation != "":
	case form == "", form == "wide":
		return &tablePrinter{options: o.Table, wide: form == "wide"}, nil
	case kind == customColumns, kind == customColumnsFile:
		return o.customColumns(kind, argument)
	}
	return nil, fmt.Errorf("%w %q, allowed formats are: %s", ErrFormat, form, strings.Join(o.forms(), ","))
}

// forms lists what may be asked for.
func (o Options) forms() []string {
	all := []string{
		"json", "yaml", "kyaml", "name", jsonPath, jsonPathJSON, jsonPathFile,
		goTemplate, goTemplateFile, goTemplateOld, goTemplateFileOld,
	}
	if o.Operation == "" {
		all = append(all, "wide", customColumns, customColumnsFile)
	}
	slices.Sort(all)
	return all
}

// split divides "jsonpath={.x}". With a Template of its own the form is only the kind.
func (o Options) split(form string) (kind, argument string) {
	if o.Template != "" {
		return form, o.Template
	}
	kind, argument, _ = strings.Cut(form, "=")
	return kind, argument
}

// file reads a file that a form names.
func (o Options) file(path string) (string, error) {
	if o.FS == nil {
		data, err := os.ReadFile(path)
		return string(data), err
	}
	data, err := fs.ReadFile(o.FS, path)
	return string(data), err
}

// typed gives objects their kinds before they are printed.
func typed(next Printer, kinds runtime.ObjectTyper) Printer {
	return Func(func(w io.Writer, obj runtime.Object) error {
		if _, event := obj.(*metav1.WatchEvent); event || obj == nil || !obj.GetObjectKind().GroupVersionKind().Empty() {
			return next.Print(w, obj)
		}
		gvks, _, err := kinds.ObjectKinds(obj)
		if err != nil {
			return fmt.Errorf("missing apiVersion or kind and cannot assign it; %w", err)
		}
		for _, gvk := range gvks {
			if gvk.Kind != "" && gvk.Version != "" && gvk.Version != runtime.APIVersionInternal {
				obj = obj.DeepCopyObject()
				obj.GetObjectKind().SetGroupVersionKind(gvk)
				break
			}
		}
		return next.Print(w, obj)
	})
}
