package initializers

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotation holds the State of an object, as JSON, until it is initialized.
const Annotation = "keelson.dev/initializers"

// State is how far the initialization of an object is. It has the form of metav1.Initializers, as Kubernetes had it.
type State struct {
	// Pending are the initializers that have not acted, in their order.
	Pending []Pending `json:"pending"`
	// Result, if set, says why the object has been rejected.
	Result *metav1.Status `json:"result,omitempty"`
}

// Pending is an initializer that has not acted.
type Pending struct {
	Name string `json:"name"`
}

var (
	// ErrState means that the annotation of an object is not a State.
	ErrState = errors.New("the annotation " + Annotation + " is malformed")
	// ErrNotNext means that it is not an initializer's turn: others come first, or it is done, or the object is rejected.
	ErrNotNext = errors.New("not the next initializer")
)

// Of returns the state of an object, or nil if it is initialized.
func Of(obj metav1.Object) (*State, error) {
	value, ok := obj.GetAnnotations()[Annotation]
	if !ok {
		return nil, nil
	}
	var s State
	if err := json.Unmarshal([]byte(value), &s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	return &s, nil
}

// Next returns the name of the initializer whose turn it is, or "" if nobody has anything to do.
func Next(obj metav1.Object) string {
	s, err := Of(obj)
	if err != nil || s == nil || s.Result != nil || len(s.Pending) == 0 {
		return ""
	}
	return s.Pending[0].Name
}

// Done takes an initializer off the list of an object, whose turn it must be: otherwise the error is ErrNotNext.
func Done(obj metav1.Object, name string) error {
	s, err := turn(obj, name)
	if err != nil {
		return err
	}
	s.Pending = s.Pending[1:]
	s.set(obj)
	return nil
}

// Reject has an object rejected by an initializer whose turn it is: otherwise the error is ErrNotNext. The server answers
// the creator with the status.
func Reject(obj metav1.Object, name string, why metav1.Status) error {
	s, err := turn(obj, name)
	if err != nil {
		return err
	}
	why.Status = metav1.StatusFailure
	s.Result = &why
	s.set(obj)
	return nil
}

// turn returns the state of an object if it is an initializer's turn.
func turn(obj metav1.Object, name string) (*State, error) {
	s, err := Of(obj)
	if err != nil {
		return nil, err
	}
	if s == nil || s.Result != nil || len(s.Pending) == 0 || s.Pending[0].Name != name {
		return nil, fmt.Errorf("%w: %s", ErrNotNext, name)
	}
	return s, nil
}

// complete reports whether nothing is left to do.
func (s *State) complete() bool { return s == nil || len(s.Pending) == 0 && s.Result == nil }

// names returns the names of the pending initializers.
func (s *State) names() []string {
	names := make([]string, len(s.Pending))
	for i, p := range s.Pending {
		names[i] = p.Name
	}
	return names
}

// set writes the state to an object.
func (s *State) set(obj metav1.Object) {
	if s.complete() {
		set(obj, "", false)
		return
	}
	data, _ := json.Marshal(s) //nolint:errchkjson // strings, numbers and times
	set(obj, string(data), true)
}

// set writes or removes the annotation; the object may share its annotations with others.
func set(obj metav1.Object, value string, there bool) {
	annotations := maps.Clone(obj.GetAnnotations())
	switch {
	case there && annotations == nil:
		annotations = map[string]string{Annotation: value}
	case there:
		annotations[Annotation] = value
	default:
		if delete(annotations, Annotation); len(annotations) == 0 {
			annotations = nil
		}
	}
	obj.SetAnnotations(annotations)
}
