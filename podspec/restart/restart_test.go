package restart_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podspec/restart"
)

func Example() {
	spec := &corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways}
	never := corev1.ContainerRestartPolicyNever
	c := &corev1.Container{RestartPolicy: &never, RestartPolicyRules: []corev1.ContainerRestartRule{{
		Action: corev1.ContainerRestartRuleActionRestart,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
		},
	}}}
	fmt.Println(restart.Policy(spec, c), restart.After(spec, c, 42), restart.After(spec, c, 1))
	// Output: Never true false
}

func rule(action corev1.ContainerRestartRuleAction, operator corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) corev1.ContainerRestartRule {
	return corev1.ContainerRestartRule{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes}}
}

// TestAfter: rules apply in their order, then the container's own policy, then the pod's.
func TestAfter(t *testing.T) {
	const always, onFailure, never = "Always", "OnFailure", "Never"
	const again, all = corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	for _, c := range []struct {
		pod, own string
		rules    []corev1.ContainerRestartRule
		again    map[int32]bool // by exit code
		policy   corev1.RestartPolicy
	}{
		{pod: always, again: map[int32]bool{0: true, 1: true}, policy: always},
		{pod: "", again: map[int32]bool{0: true, 1: true}, policy: always},
		{pod: "Sometimes", again: map[int32]bool{0: true, 1: true}, policy: always},
		{pod: onFailure, again: map[int32]bool{0: false, 1: true, -1: true}, policy: onFailure},
		{pod: never, again: map[int32]bool{0: false, 1: false}, policy: never},
		{pod: never, own: always, again: map[int32]bool{0: true, 1: true}, policy: always},
		{pod: always, own: onFailure, again: map[int32]bool{0: false, 1: true}, policy: onFailure},
		{pod: always, own: never, again: map[int32]bool{0: false, 1: false}, policy: never},
		{pod: never, own: "Sometimes", again: map[int32]bool{0: false, 1: false}, policy: never},
		{pod: always, own: never, rules: []corev1.ContainerRestartRule{rule(again, in, 3, 4)}, again: map[int32]bool{3: true, 4: true, 5: false}, policy: never},
		{pod: always, own: never, rules: []corev1.ContainerRestartRule{rule(again, notIn, 3, 4)}, again: map[int32]bool{3: false, 5: true}, policy: never},
		{pod: always, own: onFailure, rules: []corev1.ContainerRestartRule{rule(again, in, 0)}, again: map[int32]bool{0: true, 1: true}, policy: onFailure},
		{pod: always, own: never, rules: []corev1.ContainerRestartRule{rule(all, in, 3)}, again: map[int32]bool{3: true, 4: false}, policy: never},
		// The first matching rule decides, whatever its action.
		{pod: always, own: never, rules: []corev1.ContainerRestartRule{rule("Stop", in, 3), rule(again, in, 3)}, again: map[int32]bool{3: false}, policy: never},
		{pod: always, own: never, rules: []corev1.ContainerRestartRule{{Action: again}, rule(again, "Near", 3)}, again: map[int32]bool{3: false}, policy: never},
		// Rules of a container without its own policy are ignored.
		{pod: never, rules: []corev1.ContainerRestartRule{rule(again, in, 3)}, again: map[int32]bool{3: false}, policy: never},
	} {
		spec := &corev1.PodSpec{RestartPolicy: corev1.RestartPolicy(c.pod)}
		container := &corev1.Container{RestartPolicyRules: c.rules}
		if c.own != "" {
			container.RestartPolicy = new(corev1.ContainerRestartPolicy(c.own))
		}
		for code, want := range c.again {
			if got := restart.After(spec, container, code); got != want {
				t.Errorf("pod %q, container %q, rules %v: after %d %t", c.pod, c.own, c.rules, code, got)
			}
		}
		if got := restart.Policy(spec, container); got != c.policy {
			t.Errorf("pod %q, container %q: %s", c.pod, c.own, got)
		}
		if got := restart.Sidecar(container); got != (c.own == always) {
			t.Errorf("container %q is a sidecar: %t", c.own, got)
		}
	}
}

func TestRule(t *testing.T) {
	const in = corev1.ContainerRestartRuleOnExitCodesOpIn
	c := &corev1.Container{RestartPolicyRules: []corev1.ContainerRestartRule{rule("a", in, 1), rule("b", in, 1, 2)}}
	for code, want := range map[int32]corev1.ContainerRestartRuleAction{1: "a", 2: "b", 3: ""} {
		if got, found := restart.Rule(c, code); got.Action != want || found != (want != "") {
			t.Errorf("%d: %q, %t", code, got.Action, found)
		}
	}
}

func TestTogether(t *testing.T) {
	const in, all = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleActionRestartAllContainers
	one := []corev1.Container{{RestartPolicyRules: []corev1.ContainerRestartRule{rule("Restart", in, 1)}}}
	both := []corev1.Container{{}, {RestartPolicyRules: []corev1.ContainerRestartRule{rule("Restart", in, 1), rule(all, in, 1)}}}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want bool
	}{
		"nothing":           {corev1.PodSpec{}, false},
		"itself only":       {corev1.PodSpec{InitContainers: one, Containers: one}, false},
		"a container":       {corev1.PodSpec{Containers: both}, true},
		"an init container": {corev1.PodSpec{InitContainers: both, Containers: one}, true},
	} {
		if got := restart.Together(&c.spec); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
