package apps_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func daemonSet() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "log", Namespace: "ns", Generation: 4},
		Spec:       appsv1.DaemonSetSpec{Selector: selector(), Template: template()},
	}
}

func stepping(unavailable, surge string) func(*appsv1.DaemonSet) {
	return func(d *appsv1.DaemonSet) {
		d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{
			MaxUnavailable: new(intstr.Parse(unavailable)), MaxSurge: new(intstr.Parse(surge)),
		}
	}
}

func TestDaemonSet(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "daemonsets")
	type change = registrytest.Change[*appsv1.DaemonSet]
	changes := []change{
		{Name: "other labels", To: func(d *appsv1.DaemonSet) { d.Spec.Template.Labels["app"] = "db" }, Refused: []string{
			"spec.template.metadata.labels: Invalid value: {\"app\":\"db\"}: `selector` does not match template `labels`"}},
		{Name: "never restarted", To: func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }, Refused: []string{
			`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
		{Name: "deadline for pods", To: func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.ActiveDeadlineSeconds = new(int64(5)) }, Refused: []string{
			`spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported`}},
		{Name: "no container", To: func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers = nil }, Refused: []string{
			`spec.template.spec.containers: Required value`}},
		{Name: "one by one", To: stepping("1", "0")},
		{Name: "all at once", To: stepping("100%", "0%")},
		{Name: "surge", To: stepping("0", "100%")},
		{Name: "no step", To: stepping("0", "0%"), Refused: []string{
			`spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0`}},
		{Name: "two steps", To: stepping("1", "50%"), Refused: []string{
			`spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: "50%": may not be set when maxUnavailable is non-zero`}},
		{Name: "more than all", To: stepping("101%", "0"), Refused: []string{
			`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`}},
		{Name: "a surge of more than all", To: stepping("0", "101%"), Refused: []string{
			`spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: "101%": must not be greater than 100%`}},
		{Name: "negative", To: stepping("-1", "0"), Refused: []string{
			`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be greater than or equal to 0`}},
		{Name: "negative surge", To: stepping("0", "-1"), Refused: []string{
			`spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: -1: must be greater than or equal to 0`}},
		{Name: "words", To: stepping("few", "1"), Refused: []string{
			`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "few": ` + notPercent}},
		{Name: "on delete", To: func(d *appsv1.DaemonSet) { d.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }},
		{Name: "unknown strategy", To: func(d *appsv1.DaemonSet) {
			stepping("1", "25%")(d)
			d.Spec.UpdateStrategy.Type = "Pray"
		}, Refused: []string{
			`spec.updateStrategy: Unsupported value: {"Type":"Pray","RollingUpdate":{"MaxUnavailable":1,"MaxSurge":"25%"}}: supported values: "RollingUpdate", "OnDelete"`}},
		{Name: "unknown strategy without steps", To: func(d *appsv1.DaemonSet) {
			d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: "Pray"}
		}, Refused: []string{
			`spec.updateStrategy: Unsupported value: {"Type":"Pray","RollingUpdate":null}: supported values: "RollingUpdate", "OnDelete"`}},
		{Name: "negative numbers", To: func(d *appsv1.DaemonSet) {
			d.Spec.MinReadySeconds, d.Spec.RevisionHistoryLimit = -3, new(int32(-1))
		}, Refused: []string{
			`spec.minReadySeconds: Invalid value: -3: must be greater than or equal to 0`,
			`spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0`}},
	}
	registrytest.Create(t, k, daemonSet(), append(changes, []change{
		{Name: "no selector", To: func(d *appsv1.DaemonSet) { d.Spec.Selector = nil }, Refused: []string{
			"spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"}},
		{Name: "empty selector", To: func(d *appsv1.DaemonSet) { d.Spec.Selector = &metav1.LabelSelector{} }, Refused: []string{
			`spec.selector: Invalid value: {}: empty selector is invalid for daemonset`}},
		{Name: "unreadable selector", To: func(d *appsv1.DaemonSet) {
			d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
		}, Refused: []string{`spec.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator`}},
		{Name: "invalid value in selector", To: func(d *appsv1.DaemonSet) { strange(d.Spec.Selector) }, Refused: []string{
			`spec.selector.matchExpressions[0].values[0]: Invalid value: "?": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
	}...))
	registrytest.Update(t, k, "", daemonSet(), append(changes, change{Name: "another selector", To: func(d *appsv1.DaemonSet) {
		d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = map[string]string{"a": "b"}, map[string]string{"a": "b"}
	}, Refused: []string{`spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable`}}))
	odd := daemonSet()
	strange(odd.Spec.Selector)
	registrytest.Update(t, k, "", odd, []change{{Name: "with a selector that newer rules refuse", To: func(d *appsv1.DaemonSet) { d.Spec.MinReadySeconds = 1 }}})
}

// strange adds to a selector a value that older servers accepted.
func strange(s *metav1.LabelSelector) {
	s.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"?"}}}
}

func TestDaemonSetUndefaulted(t *testing.T) {
	d := daemonSet()
	d.Spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	errs := registrytest.Find(t, apps.Kinds(), "daemonsets").Rules.Validate(d)
	if got := errs[len(errs)-1].Error(); got != `spec.updateStrategy.rollingUpdate: Required value` {
		t.Error(got)
	}
}

func TestDaemonSetStatus(t *testing.T) {
	const nonnegative = ": must be greater than or equal to 0"
	k := registrytest.Find(t, apps.Kinds(), "daemonsets")
	stored := daemonSet()
	stored.Status.CollisionCount = new(int32(2))
	registrytest.Update(t, k, "status", stored, []registrytest.Change[*appsv1.DaemonSet]{
		{Name: "the spec stays", To: func(d *appsv1.DaemonSet) { d.Spec.MinReadySeconds = -1 }},
		{Name: "more current than desired", To: func(d *appsv1.DaemonSet) { d.Status.CurrentNumberScheduled, d.Status.NumberReady = 3, 4 }},
		{Name: "fewer collisions", To: func(d *appsv1.DaemonSet) { d.Status.CollisionCount = new(int32(1)) }, Refused: []string{
			`status.collisionCount: Invalid value: 1: cannot be decremented`}},
		{Name: "no collisions", To: func(d *appsv1.DaemonSet) { d.Status.CollisionCount = nil }, Refused: []string{
			`status.collisionCount: Invalid value: 0: cannot be decremented`}},
		{Name: "negative", To: func(d *appsv1.DaemonSet) {
			d.Status = appsv1.DaemonSetStatus{
				CurrentNumberScheduled: -1, NumberMisscheduled: -2, DesiredNumberScheduled: -3, NumberReady: -4, ObservedGeneration: -5,
				UpdatedNumberScheduled: -6, NumberAvailable: -7, NumberUnavailable: -8, CollisionCount: new(int32(-9)),
			}
		}, Refused: []string{
			`status.currentNumberScheduled: Invalid value: -1` + nonnegative,
			`status.numberMisscheduled: Invalid value: -2` + nonnegative,
			`status.desiredNumberScheduled: Invalid value: -3` + nonnegative,
			`status.numberReady: Invalid value: -4` + nonnegative,
			`status.observedGeneration: Invalid value: -5` + nonnegative,
			`status.updatedNumberScheduled: Invalid value: -6` + nonnegative,
			`status.numberAvailable: Invalid value: -7` + nonnegative,
			`status.numberUnavailable: Invalid value: -8` + nonnegative,
			`status.collisionCount: Invalid value: -9` + nonnegative,
			`status.collisionCount: Invalid value: -9: cannot be decremented`}},
	})
}

func TestDaemonSetDefaults(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "daemonsets")
	d := daemonSet()
	d.Status.NumberReady = 9
	registrytest.Prepare(k, d)
	s := d.Spec
	if *s.RevisionHistoryLimit != 10 || s.UpdateStrategy.Type != "RollingUpdate" ||
		s.UpdateStrategy.RollingUpdate.MaxSurge.String() != "0" || s.UpdateStrategy.RollingUpdate.MaxUnavailable.String() != "1" ||
		s.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("defaults: %+v", s)
	}
	if d.Status.NumberReady != 0 || d.Generation != 1 {
		t.Errorf("created with status %+v, generation %d", d.Status, d.Generation)
	}
	kept := daemonSet()
	stepping("0", "2%")(kept)
	kept.Spec.RevisionHistoryLimit = new(int32(0))
	k.Rules.Default(kept)
	if r := kept.Spec.UpdateStrategy.RollingUpdate; r.MaxUnavailable.String() != "0" || r.MaxSurge.String() != "2%" || *kept.Spec.RevisionHistoryLimit != 0 {
		t.Errorf("defaults overwrote: %+v", kept.Spec)
	}
	onDelete := daemonSet()
	onDelete.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	if k.Rules.Default(onDelete); onDelete.Spec.UpdateStrategy.RollingUpdate != nil {
		t.Errorf("rolling update parameters with OnDelete: %+v", onDelete.Spec.UpdateStrategy)
	}
	// Upstream does not store that a number is missing.
	onDelete.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: new(intstr.FromInt32(3))}
	k.Rules.Default(onDelete)
	if r := onDelete.Spec.UpdateStrategy.RollingUpdate; r.MaxUnavailable == nil || r.MaxUnavailable.IntValue() != 0 || r.MaxSurge.IntValue() != 3 {
		t.Errorf("numbers with OnDelete: %+v", r)
	}
}

// TestTemplateGeneration: an annotation counts the changes of the template, whatever clients write into it.
func TestTemplateGeneration(t *testing.T) {
	const key = appsv1.DeprecatedTemplateGeneration
	k := registrytest.Find(t, apps.Kinds(), "daemonsets")
	with := func(value string) *appsv1.DaemonSet {
		d := daemonSet()
		if value != "" {
			d.Annotations = map[string]string{key: value}
		}
		return d
	}
	for value, want := range map[string][2]string{
		"": {"0", "1"}, "0": {"0", "1"}, "-3": {"-3", "1"}, "7": {"7", "7"}, "+08": {"8", "8"}, "x": {"x", "x"},
	} {
		d := with(value)
		k.Rules.Default(d)
		sent := d.Annotations[key]
		registrytest.Prepare(k, d)
		if got := [2]string{sent, d.Annotations[key]}; got != want {
			t.Errorf("%q is read and created as %q, want %q", value, got, want)
		}
	}
	relabel := func(d *appsv1.DaemonSet) { d.Spec.Template.Labels["more"] = "x" }
	for name, tt := range map[string]struct {
		view, sent, want string
		generation       int64
		change           func(*appsv1.DaemonSet)
	}{
		"the same":             {"", "7", "7", 4, func(*appsv1.DaemonSet) {}},
		"left out":             {"", "", "7", 4, func(*appsv1.DaemonSet) {}},
		"another":              {"", "9", "7", 4, func(*appsv1.DaemonSet) {}},
		"another spec":         {"", "7", "7", 5, func(d *appsv1.DaemonSet) { d.Spec.MinReadySeconds = 3 }},
		"another status":       {"", "7", "7", 4, func(d *appsv1.DaemonSet) { d.Status.NumberReady = 3 }},
		"another template":     {"", "", "8", 5, relabel},
		"by the status":        {"status", "9", "7", 4, relabel},
		"left out of a status": {"status", "", "7", 4, relabel},
		"no number":            {"", "x", "x", 4, func(*appsv1.DaemonSet) {}},
	} {
		old, d := with("7"), with(tt.sent)
		k.Rules.Default(old)
		tt.change(d)
		registrytest.Replace(k, tt.view, d, old)
		if d.Annotations[key] != tt.want || d.Generation != tt.generation {
			t.Errorf("%s: %v, generation %d", name, d.Annotations, d.Generation)
		}
		if tt.view == "status" && d.Spec.Template.Labels["more"] != "" {
			t.Errorf("%s: the template has changed", name)
		}
		if kept := d.Status.NumberReady == 0; !kept {
			t.Errorf("%s: status %+v", name, d.Status)
		}
	}
	if err := k.Rules.Guard(t.Context(), with("7"), nil); err != nil {
		t.Error(err)
	}
	err := k.Rules.Guard(t.Context(), with("x"), with("7"))
	var refusal *registry.Error
	if !errors.As(err, &refusal) || !errors.Is(err, registry.ErrBadRequest) ||
		refusal.Message != `DaemonSet in version "v1" cannot be handled as a DaemonSet: strconv.ParseInt: parsing "x": invalid syntax` {
		t.Error(err)
	}
}

func TestDaemonSetCells(t *testing.T) {
	now := time.Now()
	d := daemonSet()
	d.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
	d.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 5, CurrentNumberScheduled: 4, NumberReady: 3, UpdatedNumberScheduled: 2, NumberAvailable: 1}
	k := registrytest.Find(t, apps.Kinds(), "daemonsets")
	want := []any{"log", int64(5), int64(4), int64(3), int64(2), int64(1), "<none>", "60m", "c", "web:1", "app=web"}
	if got := k.Columns.Cells(d, now); !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	d.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "fast"}
	if got := k.Columns.Cells(d, now); got[6] != "disk=fast" {
		t.Errorf("%q", got)
	}
}
