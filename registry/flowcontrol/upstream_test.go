package flowcontrol_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	apf "github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/registry/flowcontrol"
)

// TestUpstreams: the objects that every server keeps are those of upstream's servers.
func TestUpstreams(t *testing.T) {
	levels := func(all []*flowcontrolv1.PriorityLevelConfiguration) map[string]flowcontrolv1.PriorityLevelConfigurationSpec {
		out := map[string]flowcontrolv1.PriorityLevelConfigurationSpec{}
		for _, l := range all {
			l = l.DeepCopy()
			flowcontrol.DefaultPriorityLevel(l)
			out[l.Name] = l.Spec
		}
		return out
	}
	schemas := func(all []*flowcontrolv1.FlowSchema) map[string]flowcontrolv1.FlowSchemaSpec {
		out := map[string]flowcontrolv1.FlowSchemaSpec{}
		for _, s := range all {
			out[s.Name] = s.Spec
		}
		return out
	}
	mandatory, suggested := apf.DefaultLevels()
	required, proposed := apf.DefaultSchemas()
	for name, diff := range map[string]string{
		"mandatory levels":  cmp.Diff(levels(bootstrap.MandatoryPriorityLevelConfigurations), levels(mandatory)),
		"suggested levels":  cmp.Diff(levels(bootstrap.SuggestedPriorityLevelConfigurations), levels(suggested)),
		"mandatory schemas": cmp.Diff(schemas(bootstrap.MandatoryFlowSchemas), schemas(required)),
		"suggested schemas": cmp.Diff(schemas(bootstrap.SuggestedFlowSchemas), schemas(proposed)),
	} {
		if diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
