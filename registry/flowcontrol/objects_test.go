package flowcontrol_test

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	apf "github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/registry/flowcontrol"
)

func TestRevise(t *testing.T) {
	_, levels := apf.DefaultLevels()
	_, schemas := apf.DefaultSchemas()
	for name, tt := range map[string]struct {
		annotation string
		generation int64
		changed    bool
		mandatory  bool
		spec, mark bool // whether the spec is revised, and to what the annotation is
		nothing    bool
	}{
		"as it should be":       {annotation: "true", mark: true, nothing: true},
		"changed":               {annotation: "true", changed: true, spec: true, mark: true},
		"taken over":            {annotation: "false", changed: true, nothing: true},
		"taken over, mandatory": {annotation: "false", changed: true, mandatory: true, spec: true, mark: true},
		"no annotation, new":    {generation: 1, changed: true, spec: true, mark: true},
		"no annotation, old":    {generation: 2, changed: true},
		"nonsense":              {annotation: "x", generation: 2},
		"another spelling":      {annotation: "1", nothing: true},
	} {
		l, s := levels[0].DeepCopy(), schemas[0].DeepCopy()
		l.Generation, s.Generation = tt.generation, tt.generation
		l.Annotations, s.Annotations = nil, nil
		if tt.annotation != "" {
			l.Annotations = map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: tt.annotation}
			s.Annotations = map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: tt.annotation}
		}
		if tt.changed {
			l.Spec.Limited.NominalConcurrencyShares, s.Spec.MatchingPrecedence = new(int32(1)), 7
		}
		level, schema := flowcontrol.RevisePriorityLevel(l, levels[0], tt.mandatory), flowcontrol.ReviseFlowSchema(s, schemas[0], tt.mandatory)
		if (level == nil) != tt.nothing || (schema == nil) != tt.nothing {
			t.Errorf("%s: %v, %v", name, level, schema)
			continue
		}
		if tt.nothing {
			continue
		}
		marks := map[bool]string{true: "true", false: "false"}[tt.mark]
		if level.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] != marks || schema.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] != marks {
			t.Errorf("%s: marked %v, %v", name, level.Annotations, schema.Annotations)
		}
		if tt.changed && ((*level.Spec.Limited.NominalConcurrencyShares == 30) != tt.spec || (schema.Spec.MatchingPrecedence == 500) != tt.spec) {
			t.Errorf("%s: %+v, %+v", name, level.Spec, schema.Spec)
		}
	}
}

// TestReviseDefaults: what is wanted has its defaults.
func TestReviseDefaults(t *testing.T) {
	marked := map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}
	s, l := &flowcontrolv1.FlowSchema{}, &flowcontrolv1.PriorityLevelConfiguration{}
	l.Spec.Limited = &flowcontrolv1.LimitedPriorityLevelConfiguration{}
	current, level := s.DeepCopy(), l.DeepCopy()
	current.Annotations, level.Annotations = marked, marked
	flowcontrol.DefaultFlowSchema(current)
	flowcontrol.DefaultPriorityLevel(level)
	if got := flowcontrol.ReviseFlowSchema(current, s, true); got != nil || s.Spec.MatchingPrecedence != 0 {
		t.Errorf("revised to %+v, wanted %+v", got, s)
	}
	if got := flowcontrol.RevisePriorityLevel(level, l, true); got != nil || l.Spec.Limited.NominalConcurrencyShares != nil {
		t.Errorf("revised to %+v, wanted %+v", got, l)
	}
}

// TestExempt: what the exempt level lends stays.
func TestExempt(t *testing.T) {
	mandatory, _ := apf.DefaultLevels()
	l := mandatory[1].DeepCopy()
	l.Spec.Exempt.LendablePercent = new(int32(50))
	if got := flowcontrol.RevisePriorityLevel(l, mandatory[1], true); got != nil {
		t.Errorf("%+v", got.Spec)
	}
	l.Spec.Exempt = nil
	if got := flowcontrol.RevisePriorityLevel(l, mandatory[1], true); got == nil || got.Spec.Exempt == nil {
		t.Errorf("%+v", got)
	}
}

func TestUnwanted(t *testing.T) {
	_, levels := apf.DefaultLevels()
	l := levels[0]
	if flowcontrol.Unwanted(l, []string{l.Name}) || !flowcontrol.Unwanted(l, nil) {
		t.Error("what is known is wanted, alone")
	}
	l.Annotations = map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "false"}
	if flowcontrol.Unwanted(l, nil) {
		t.Error("it belongs to somebody")
	}
	if l.Annotations = nil; flowcontrol.Unwanted(l, nil) {
		t.Error("nothing says so")
	}
}
