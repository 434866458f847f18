// Package zpages serves what a component is and how it was started, for people who look for the cause of a problem:
// /statusz (KEP-4827) and /flagz (KEP-4828), as text or, for programs, as objects of config.k8s.io that an Accept header asks
// for, such as application/json;v=v1beta1;g=config.k8s.io;as=Statusz.
//
// The handlers are safe for concurrent use. Who may read them is the server's to decide.
package zpages

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

// group is that of the objects, with its versions.
const (
	group      = "config.k8s.io"
	current    = "v1beta1"
	deprecated = "v1alpha1"
)

// Status is what /statusz tells about a component.
type Status struct {
	Component string    // its name, such as apiserver
	Version   string    // of its program, such as 1.37.1
	Started   time.Time // when it was started
	Paths     []string  // what it serves; the first parts of those that help to find problems are told
}

// Statusz returns the handler of /statusz.
func Statusz(s Status) http.Handler {
	paths := folders(s.Paths)
	return page{
		component: s.Component, kind: "Statusz",
		text: func(w io.Writer) {
			up := int64(time.Since(s.Started).Seconds())
			fmt.Fprintf(w, "\nStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\nEmulation version: %s\n", s.Started.Format(time.UnixDate),
				up/3600, up/60%60, up%60, runtime.Version(), s.Version, minor(s.Version))
			if len(paths) > 0 {
				fmt.Fprintf(w, "Paths: %s\n", strings.Join(paths, " "))
			}
		},
		object: func() map[string]any {
			return map[string]any{
				"startTime": metav1.NewTime(s.Started), "uptimeSeconds": max(0, int64(time.Since(s.Started).Seconds())), "goVersion": runtime.Version(),
				"binaryVersion": s.Version, "emulationVersion": minor(s.Version), "paths": paths,
			}
		},
	}
}

// minor is a version without its last part.
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// folders are the first parts of paths, except those of the API and of what describes it.
func folders(paths []string) []string {
	found := map[string]bool{}
	for _, p := range paths {
		_, rest, _ := strings.Cut(p, "/")
		first, _, _ := strings.Cut(rest, "/")
		switch first {
		case "", "api", "apis", "openapi", "openid", ".well-known":
		default:
			found["/"+first] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Flagz returns the handler of /flagz of a component that was started with these flags. It is up to the caller to leave
// secrets out.
func Flagz(component string, flags map[string]string) http.Handler {
	flags = maps.Clone(flags)
	return page{
		component: component, kind: "Flagz",
		text: func(w io.Writer) {
			for _, name := range slices.Sorted(maps.Keys(flags)) {
				fmt.Fprintf(w, "%s=%s\n", name, flags[name])
			}
		},
		object: func() map[string]any { return map[string]any{"flags": flags} },
	}
}

// page is the handler of one kind.
type page struct {
	component, kind string
	text            func(io.Writer)
	object          func() map[string]any
}

// ServeHTTP implements http.Handler.
func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	media, version, ok := p.accepted(r.Header.Get("Accept"))
	if !ok {
		refuse(w)
		return
	}
	if media == "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "\n%s %s\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n",
			p.component, strings.ToLower(p.kind))
		p.text(w)
		return
	}
	object := p.object()
	object["kind"], object["apiVersion"], object["metadata"] = p.kind, group+"/"+version, map[string]any{"name": p.component}
	encode := json.Marshal
	if media == "application/yaml" {
		encode = boundedyaml.Marshal
	}
	data, err := encode(object)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if version == deprecated {
		w.Header().Set("Warning", fmt.Sprintf(`299 - "This version of the %s endpoint is deprecated. Please use a newer version."`, strings.ToLower(p.kind)))
	}
	w.Header().Set("Content-Type", media)
	_, _ = w.Write(data) // a client that is gone needs no answer
}

// refuse answers as upstream does, which does not tell that objects need the parameters v, g and as.
func refuse(w http.ResponseWriter) {
	data, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: application/json, application/yaml, text/plain",
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotAcceptable)
	_, _ = w.Write(data)
}

// accepted returns the media type and the version of the object that a client wants, or nothing for the text.
func (p page) accepted(header string) (media, version string, ok bool) {
	if strings.TrimSpace(header) == "" {
		return "", "", true
	}
	for _, c := range goautoneg.ParseAccept(header) {
		v := c.Params["v"]
		known := c.Params["g"] == group && c.Params["as"] == p.kind && (v == current || v == deprecated)
		plain := c.Params["g"] == "" && c.Params["as"] == "" && v == ""
		switch {
		case known && c.Type == "application" && (c.SubType == "json" || c.SubType == "yaml"):
			return "application/" + c.SubType, v, true
		case known && (c.Type == "application" || c.Type == "*") && c.SubType == "*":
			return "application/json", v, true
		case plain && (c.Type == "text" || c.Type == "*") && (c.SubType == "plain" || c.SubType == "*"):
			return "", "", true
		}
	}
	return "", "", false
}
