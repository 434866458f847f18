package flowcontrol

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const exempt = flowcontrolv1.PriorityLevelConfigurationNameExempt

// RevisePriorityLevel returns what a kept priority level must become, or nil if it is as it should be. Suggested ones are
// kept only while their annotation apf.kubernetes.io/autoupdate-spec says so, or nobody has changed them. Neither argument
// is changed.
func RevisePriorityLevel(current, want *flowcontrolv1.PriorityLevelConfiguration, mandatory bool) *flowcontrolv1.PriorityLevelConfiguration {
	want = want.DeepCopy()
	DefaultPriorityLevel(want)
	if want.Name == exempt && current.Spec.Exempt != nil { // what the exempt level lends is the administrator's to say
		want.Spec.Exempt = current.Spec.Exempt.DeepCopy()
	}
	keep := mandatory || keeps(current)
	revised := current.DeepCopy()
	changed := keep && !equality.Semantic.DeepEqual(want.Spec, current.Spec)
	if changed {
		revised.Spec = want.Spec
	}
	if mark(&revised.ObjectMeta, keep) || changed {
		return revised
	}
	return nil
}

// ReviseFlowSchema is RevisePriorityLevel for flow schemas.
func ReviseFlowSchema(current, want *flowcontrolv1.FlowSchema, mandatory bool) *flowcontrolv1.FlowSchema {
	want = want.DeepCopy()
	DefaultFlowSchema(want)
	keep := mandatory || keeps(current)
	revised := current.DeepCopy()
	changed := keep && !equality.Semantic.DeepEqual(want.Spec, current.Spec)
	if changed {
		revised.Spec = want.Spec
	}
	if mark(&revised.ObjectMeta, keep) || changed {
		return revised
	}
	return nil
}

// keeps reports whether the spec of an object is kept as this server wants it.
func keeps(obj metav1.Object) bool {
	value, err := strconv.ParseBool(obj.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey])
	if err != nil {
		return obj.GetGeneration() == 1
	}
	return value
}

// mark says in an annotation whether a spec is kept, and reports whether it did not yet.
func mark(meta *metav1.ObjectMeta, keep bool) bool {
	if value, err := strconv.ParseBool(meta.Annotations[flowcontrolv1.AutoUpdateAnnotationKey]); err == nil && value == keep {
		return false
	}
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] = strconv.FormatBool(keep)
	return true
}

// Unwanted reports whether a server of another version has kept an object that this one does not know. known are the names
// of those of its kind that it does.
func Unwanted(obj metav1.Object, known []string) bool {
	value, err := strconv.ParseBool(obj.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey])
	return err == nil && value && !slices.Contains(known, obj.GetName())
}

// SetDangling sets the condition that tells whether a schema's priority level is missing, and reports whether that
// changes anything. It changes s.
func SetDangling(s *flowcontrolv1.FlowSchema, missing bool) bool {
	level := s.Spec.PriorityLevelConfiguration.Name
	want := flowcontrolv1.FlowSchemaCondition{
		Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse, Reason: "Found",
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", level),
	}
	if missing {
		want.Status, want.Reason = flowcontrolv1.ConditionTrue, "NotFound"
		want.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", level)
	}
	at := slices.IndexFunc(s.Status.Conditions, func(c flowcontrolv1.FlowSchemaCondition) bool { return c.Type == want.Type })
	if at < 0 {
		s.Status.Conditions = append(s.Status.Conditions, flowcontrolv1.FlowSchemaCondition{})
		at = len(s.Status.Conditions) - 1
	}
	have := &s.Status.Conditions[at]
	if have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
		return false
	}
	want.LastTransitionTime = metav1.NewTime(time.Now())
	*have = want
	return true
}
