package managedfields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// lastAppliedAnnotation is where a client that applies from its side keeps what it applied.
const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

var errNoLastApplied = errors.New("no last applied annotation")

// lastApplied returns the fields that were applied from the client's side and are as they were.
func (p *application) lastApplied() (*fieldpath.Set, error) {
	document := p.live.GetAnnotations()[lastAppliedAnnotation]
	if document == "" {
		return nil, errNoLastApplied
	}
	found, err := p.version.from(p.live)
	if err != nil {
		return nil, err
	}
	live, err := p.tracker.schema.typed(p.version, found)
	if err != nil {
		return nil, err
	}
	last := &unstructured.Unstructured{Object: map[string]any{}}
	if err := json.Unmarshal([]byte(document), last); err != nil {
		return nil, err
	}
	if last.GetAPIVersion() != p.tracker.at.Version.String() || last.GetKind() != p.version.Kind {
		return nil, fmt.Errorf("%s is of another type: %s", lastAppliedAnnotation, last.GroupVersionKind())
	}
	was, err := p.tracker.schema.parse(p.version).FromUnstructured(last.UnstructuredContent())
	if err != nil {
		return nil, err
	}
	set, err := was.ToFieldSet()
	if err != nil {
		return nil, err
	}
	since, err := was.Compare(live)
	if err != nil {
		return nil, err
	}
	return set.Difference(since.Modified).Difference(since.Added).Difference(since.Removed), nil
}

// syncLastApplied keeps the annotation of an object that has it up to date, for a return to
// client-side apply. It goes when the object's annotations would be too large.
func syncLastApplied(obj Object, config *unstructured.Unstructured) error {
	if obj.GetAnnotations()[lastAppliedAnnotation] == "" {
		return nil
	}
	config = config.DeepCopy()
	annotations := config.GetAnnotations()
	delete(annotations, lastAppliedAnnotation)
	config.SetAnnotations(annotations)
	var document bytes.Buffer
	if err := json.NewEncoder(&document).Encode(config.Object); err != nil {
		return fmt.Errorf("failed to build last-applied annotation: couldn't encode object into last applied annotation: %w", err)
	}
	annotations = maps.Clone(obj.GetAnnotations())
	annotations[lastAppliedAnnotation] = document.String()
	if apivalidation.ValidateAnnotationsSize(annotations) != nil {
		delete(annotations, lastAppliedAnnotation)
	}
	obj.SetAnnotations(annotations)
	return nil
}
