package admissionconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// document is a configuration and where it stands.
type document struct {
	path string
	text []byte // of the whole file
	// within is the field of the file in which the configuration stands; empty if it is the file.
	within string
	json   []byte
}

// open reads a file.
func open(path string) (document, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return document{}, &Error{Path: path, Err: err}
	}
	d := document{path: path, text: text}
	if d.json, err = boundedyaml.ToJSONStrict(text, boundedyaml.Limit); err != nil {
		return d, &Error{Path: path, Err: err}
	}
	return d, nil
}

// beside returns the path of another file that this one names.
func (d document) beside(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(d.path), path)
}

// wrong is the error about a field of the configuration.
func (d document) wrong(name string, err error) error {
	at := strings.Trim(d.within+"."+name, ".")
	return &Error{Path: d.path, Line: boundedyaml.Line(d.text, at), Err: err}
}

// fields are an error for each of some invalid fields.
func (d document) fields(errs field.ErrorList) error {
	var all []error
	for _, err := range errs {
		all = append(all, d.wrong(err.Field, err))
	}
	return errors.Join(all...)
}

// kinds are the versions in which a configuration may be written.
type kinds struct {
	group, kind string
	versions    []string
}

// as decodes the configuration, which must be of a kind unless that is empty. Fields that are not known are errors.
func (d document) as(k kinds, into any) error {
	if k.kind != "" {
		var is metav1.TypeMeta
		if err := json.UnmarshalCaseSensitivePreserveInts(d.json, &is); err != nil {
			return d.wrong("", err)
		}
		group, version, _ := strings.Cut(is.APIVersion, "/")
		if group != k.group || !slices.Contains(k.versions, version) || is.Kind != k.kind {
			return d.wrong("apiVersion", fmt.Errorf("apiVersion %q and kind %q: want apiVersion %s/%s and kind %s", is.APIVersion, is.Kind, k.group, k.versions[0], k.kind))
		}
	}
	unknown, err := json.UnmarshalStrict(d.json, into)
	if err != nil {
		return d.wrong(fieldOf(err), err)
	}
	var all []error
	for _, err := range unknown {
		all = append(all, d.wrong(fieldOf(err), err))
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
