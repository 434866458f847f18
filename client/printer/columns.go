package printer

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
)

// relaxed completes a path that may lack its braces and its first dot.
func relaxed(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	m := regexp.MustCompile(`^\{\.?([^{}]+)\}$|^\.?([^{}]+)$`).FindStringSubmatch(path)
	if m == nil {
		return "", errors.New("unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'")
	}
	return "{." + m[1] + m[2] + "}", nil
}

// columnsPrinter shows a column for each path.
type columnsPrinter struct {
	headers   []string
	paths     []*jsonpath.JSONPath
	noHeaders bool
	last      reflect.Type // headers are written again when the type changes
}

func (o Options) customColumns(kind, text string) (Printer, error) {
	if text == "" {
		return nil, errors.New("custom-columns format specified but no custom columns given")
	}
	p := &columnsPrinter{noHeaders: o.Table.NoHeaders}
	if kind == customColumnsFile {
		p.noHeaders = false // a file has its headers
		content, err := o.file(text)
		if err != nil {
			return nil, fmt.Errorf("error reading template %s, %w", text, err)
		}
		return p, p.parseFile(content)
	}
	for column := range strings.SplitSeq(text, ",") {
		header, path, found := strings.Cut(column, ":")
		if !found {
			return nil, fmt.Errorf("unexpected custom-columns spec: %s, expected <header>:<json-path-expr>", column)
		}
		if err := p.add(header, path); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// parseFile reads a line of headers and a line of paths.
func (p *columnsPrinter) parseFile(content string) error {
	const form = "Expected format is one line of space separated headers, one line of space separated column specs."
	if content == "" {
		return errors.New("invalid template, missing header line. " + form) //nolint:staticcheck // kubectl's words
	}
	first, rest, _ := strings.Cut(content, "\n")
	if rest == "" {
		return errors.New("invalid template, missing spec line. " + form) //nolint:staticcheck // kubectl's words
	}
	second, _, _ := strings.Cut(rest, "\n")
	headers, paths := strings.Fields(first), strings.Fields(second)
	if len(headers) != len(paths) {
		return fmt.Errorf("number of headers (%d) and field specifications (%d) don't match", len(headers), len(paths))
	}
	for i := range headers {
		if err := p.add(headers[i], paths[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *columnsPrinter) add(header, path string) error {
	path, err := relaxed(path)
	if err != nil {
		return err
	}
	parsed := jsonpath.New(header).AllowMissingKeys(true)
	if err := parsed.Parse(path); err != nil {
		return err
	}
	p.headers, p.paths = append(p.headers, header), append(p.paths, parsed)
	return nil
}

func (p *columnsPrinter) Print(w io.Writer, obj runtime.Object) error {
	return aligned(w, func(w io.Writer) error {
		if t := reflect.TypeOf(obj); !p.noHeaders && t != p.last {
			if _, err := fmt.Fprintln(w, strings.Join(p.headers, "\t")); err != nil {
				return err
			}
			p.last = t
		}
		if meta.IsListType(obj) {
			return meta.EachListItem(obj, func(item runtime.Object) error { return p.row(w, item) })
		}
		return p.row(w, obj)
	})
}

func (p *columnsPrinter) row(w io.Writer, obj runtime.Object) error {
	var data any
	switch o := obj.(type) {
	case *metav1.WatchEvent:
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.Object.Object)
		if err != nil {
			return err
		}
		data = map[string]any{"type": o.Type, "object": content}
	case runtime.Unstructured:
		data = o.UnstructuredContent()
	default:
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return err
		}
		data = content
	}
	var cells []string
	for _, path := range p.paths {
		results, err := path.FindResults(data)
		if err != nil {
			return err
		}
		var values []string
		if len(results) == 0 || len(results[0]) == 0 {
			values = append(values, "<none>")
		}
		for _, result := range results {
			for _, v := range result {
				values = append(values, escape(fmt.Sprint(v.Interface())))
			}
		}
		cells = append(cells, strings.Join(values, ","))
	}
	_, err := fmt.Fprintln(w, strings.Join(cells, "\t"))
	return err
}
