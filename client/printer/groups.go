package printer

import (
	"bytes"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the server's answer for one resource.
type Group struct {
	Kind       schema.GroupKind
	Namespaced bool             // whether its objects have namespaces
	Objects    []runtime.Object // tables, or objects one by one
}

// Groups prints the answers about several resources below one another, as kubectl get does for
// "pods,services": names with their kinds when there are several, and a line between the groups
// that have something to show. The form is "" or "wide". It reports whether anything was printed;
// kubectl says "No resources found" when not.
func Groups(w io.Writer, form string, o Options, groups ...Group) (printed bool, err error) {
	kinds := map[schema.GroupKind]bool{}
	for _, g := range groups {
		kinds[g.Kind] = true
	}
	for _, g := range groups {
		own := o
		own.Table.Kind = g.Kind
		own.Table.ShowKind = o.Table.ShowKind || len(kinds) > 1
		own.Table.Namespaces = o.Table.Namespaces && g.Namespaced
		p, err := New(form, own)
		if err != nil {
			return printed, err
		}
		var out bytes.Buffer
		a := NewAligned(&out)
		for _, obj := range g.Objects {
			if err := p.Print(a, obj); err != nil {
				return printed, err
			}
		}
		if err := a.Flush(); err != nil {
			return printed, err
		}
		if out.Len() == 0 {
			continue
		}
		if printed && !o.Table.NoHeaders {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return printed, err
			}
		}
		printed = true
		if _, err := out.WriteTo(w); err != nil {
			return printed, err
		}
	}
	return printed, nil
}
