package decisions

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"
)

// Handler serves the decisions below a path, such as "/debug/scheduler/decisions": those about all pods, without nodes, at
// the path itself, and one about a pod at path/NAMESPACE/NAME. Clients that accept JSON get it, others a table, unless the
// query says format=json or format=table. Other methods than GET and HEAD are not allowed.
func (l *Log) Handler(path string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "decisions can only be read", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		asJSON := strings.Contains(r.Header.Get("Accept"), "application/json")
		if format := r.URL.Query().Get("format"); format != "" {
			asJSON = format == "json"
		}
		rest := strings.Trim(strings.TrimPrefix(r.URL.Path, path), "/")
		if rest == "" {
			l.serveAll(w, asJSON)
			return
		}
		namespace, name, ok := strings.Cut(rest, "/")
		entry, found := l.Last(namespace, name)
		switch {
		case !ok || !found:
			http.Error(w, fmt.Sprintf("no decision about pod %q is kept: NAMESPACE/NAME is what to ask for", rest), http.StatusNotFound)
		case asJSON:
			write(w, entry)
		default:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = io.WriteString(w, entry.At.UTC().Format(time.RFC3339)+" "+entry.String()) // the client may be gone
		}
	})
}

func (l *Log) serveAll(w http.ResponseWriter, asJSON bool) {
	all := l.All()
	if asJSON {
		list := struct {
			Decisions []Document `json:"decisions"`
		}{make([]Document, 0, len(all))}
		for i := range all {
			list.Decisions = append(list.Decisions, all[i].Document(false))
		}
		write(w, list)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TIME\tPOD\tNODE\tMESSAGE")
	for i := range all {
		d := all[i].Document(false)
		node := d.Node
		if d.Nominated != "" {
			node = "(" + d.Nominated + ")"
		}
		fmt.Fprintf(table, "%s\t%s/%s\t%s\t%s\n", d.Time.UTC().Format(time.RFC3339), d.Namespace, d.Pod, node, strings.ReplaceAll(d.Message, "\n", " "))
	}
	_ = table.Flush() // the client may be gone
}

func write(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(answer) //nolint:errchkjson // the client may be gone
}
