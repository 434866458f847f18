// Package configfile reads versioned configuration files, such as those of upstream's components, strictly: what is wrong with one
// is told with file, line and field. Files may come from anywhere: their size when expanded is bounded.
package configfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

// Error says what is wrong with a file.
type Error struct {
	Path string // of the file
	Line int    // from 1 on; 0 if it is not known
	Err  error  // what is wrong, with the field
}

// Error returns "path:line: what is wrong".
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Document is a configuration and where it stands.
type Document struct {
	Path string
	// JSON is the configuration.
	JSON []byte

	text   []byte // of the whole file
	within string // the field of the file in which the configuration stands; empty if it is the file
}

// Open reads a file, in YAML or JSON.
func Open(path string) (Document, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Document{}, &Error{Path: path, Err: err}
	}
	return Parse(path, text)
}

// Parse reads the text of the file at a path.
func Parse(path string, text []byte) (d Document, err error) {
	d = Document{Path: path, text: text}
	if d.JSON, err = boundedyaml.ToJSONStrict(text, boundedyaml.Limit); err != nil {
		return d, &Error{Path: path, Err: err}
	}
	return d, nil
}

// Within returns a configuration that stands in a field of the file.
func (d Document) Within(name string, json []byte) Document {
	return Document{Path: d.Path, JSON: json, text: d.text, within: strings.Trim(d.within+"."+name, ".")}
}

// Beside returns the path of another file that this one names.
func (d Document) Beside(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(d.Path), path)
}

// Wrong is the error about a field of the configuration.
func (d Document) Wrong(name string, err error) error {
	at := strings.Trim(d.within+"."+name, ".")
	return &Error{Path: d.Path, Line: boundedyaml.Line(d.text, at), Err: err}
}

// Fields are an error for each of some invalid fields.
func (d Document) Fields(errs field.ErrorList) error {
	var all []error
	for _, err := range errs {
		all = append(all, d.Wrong(err.Field, err))
	}
	return errors.Join(all...)
}

// Kinds are the versions in which a configuration may be written.
type Kinds struct {
	Group, Kind string
	Versions    []string
}

// As decodes the configuration, which must be of a kind unless that is empty. Fields that are not known are errors.
func (d Document) As(k Kinds, into any) error {
	if k.Kind != "" {
		var is metav1.TypeMeta
		if err := json.UnmarshalCaseSensitivePreserveInts(d.JSON, &is); err != nil {
			return d.Wrong("", err)
		}
		group, version, found := strings.Cut(is.APIVersion, "/")
		if !found {
			group, version = "", group
		}
		if group != k.Group || !slices.Contains(k.Versions, version) || is.Kind != k.Kind {
			want := schema.GroupVersion{Group: k.Group, Version: k.Versions[0]}
			return d.Wrong("apiVersion", fmt.Errorf("apiVersion %q and kind %q: want apiVersion %s and kind %s", is.APIVersion, is.Kind, want, k.Kind))
		}
	}
	unknown, err := json.UnmarshalStrict(d.JSON, into)
	if err != nil {
		return d.Wrong(fieldOf(err), err)
	}
	var all []error
	for _, err := range unknown {
		all = append(all, d.Wrong(fieldOf(err), err))
	}
	return errors.Join(all...)
}

// quoted finds the field in an error of the decoder, such as: unknown field "plugins[0].file".
var quoted = regexp.MustCompile(`field "([^"]+)"|field \S*?\.(\S+) of type`)

func fieldOf(err error) string {
	found := quoted.FindStringSubmatch(err.Error())
	if found == nil {
		return ""
	}
	return found[1] + found[2]
}
