package admit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/admission/policy"
	"github.com/keelson-dev/keelson/admission/policy/cel"
	"github.com/keelson-dev/keelson/admission/webhook"
)

// Phase is a part of a request's way, in the order in which a server goes through them.
type Phase int

// The phases of a request.
const (
	// PhaseAuthorize asks whether the user may make the request at all (Options.Authorize).
	PhaseAuthorize Phase = iota + 1
	// PhaseDecode reads the object.
	PhaseDecode
	// PhaseDefaults fills unset fields, and converts the object to the version that is stored.
	PhaseDefaults
	// PhaseMutate is that of the mutating plugins.
	PhaseMutate
	// PhasePrepare sets and restores what is not the client's: the status, the generation.
	PhasePrepare
	// PhaseValidate checks the object by the rules of its kind.
	PhaseValidate
	// PhaseAdmit is that of the validating plugins.
	PhaseAdmit
	// PhaseStore is about other objects: one that does not exist, exists already or was changed.
	PhaseStore
)

// String returns the phase in a word.
func (p Phase) String() string {
	names := []string{"", "authorize", "decode", "defaults", "mutate", "prepare", "validate", "admit", "store"}
	if p < 0 || int(p) >= len(names) {
		return fmt.Sprintf("phase %d", int(p))
	}
	return names[p]
}

// Result is what became of a request.
type Result struct {
	// Refusal says why the request was refused; nil means that it was admitted.
	Refusal *Refusal
	// Steps are the phases and plugins that changed the object, in order. Of a request that was refused, they are those before.
	// If an object was sent and could be read, PhaseDefaults is the first, even if it changed nothing. A plugin that runs twice,
	// because a webhook or a policy asked for it, may be there twice.
	Steps []Step
	// Warnings are those that the client gets.
	Warnings []string
	// Annotations are those of the plugins for the audit log.
	Annotations map[string]string
	// Costs are those of the CEL expressions of policies.
	Costs []cel.Cost

	body   []byte
	object func([]byte) (runtime.Object, error)
}

// Object returns the object as the client gets it, in its Go type, or *unstructured.Unstructured if it has none. It is nil if the
// request was refused, and after a delete that leaves none.
func (r *Result) Object() (runtime.Object, error) {
	if r.Refusal != nil || r.object == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	return r.object(r.body)
}

// Step is a part of a request's way that changed its object.
type Step struct {
	Phase Phase
	// Plugin is the name of the plugin, if the phase is one of plugins.
	Plugin string

	before, after snapshot
}

// String returns the plugin's name, or the phase.
func (s Step) String() string {
	if s.Plugin != "" {
		return s.Plugin
	}
	return s.Phase.String()
}

// Changes returns what the step changed, in the order of the paths. UIDs, times of creation, resource versions and managed fields
// are left out.
func (s Step) Changes() []Change {
	if s.before.sent == nil || s.before.of == nil {
		return diff(nil, "", s.before.tree(), s.after.tree())
	}
	// A Go type writes some fields even if they are empty. These are no defaults, but what it does not have is dropped.
	decoded := s.before.decoded()
	var changes []Change
	written := map[string]bool{}
	for _, c := range diff(nil, "", s.before.tree(), decoded) {
		if written[c.Path] = c.Before == nil; c.After == nil {
			changes = append(changes, c)
		}
	}
	for _, c := range diff(nil, "", decoded, s.after.tree()) {
		if written[c.Path] {
			c.Before = nil
		}
		changes = append(changes, c)
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return changes
}

// Refusal says where and why a request was refused.
type Refusal struct {
	Phase Phase
	// Plugin is the name of the plugin that refused it, if one did.
	Plugin string
	// Rule is the plugin's own rule: "POLICY/BINDING" of an admission policy, the name of a webhook, that of a quota, the level of pod security, or else the
	// first field that is invalid. It may be empty.
	Rule string
	// Status is what the client is told.
	Status metav1.Status
}

// String says all in a line.
func (r *Refusal) String() string {
	by := r.Phase.String()
	if r.Plugin != "" {
		by += " " + r.Plugin
	}
	if r.Rule != "" {
		by += " (" + r.Rule + ")"
	}
	return by + ": " + r.Status.Message
}

// rule returns which rule of a plugin, or of a kind, an error is about.
func rule(err error, s *metav1.Status) string {
	var byPolicy *policy.Denial
	if errors.As(err, &byPolicy) {
		return strings.TrimSuffix(byPolicy.Policy+"/"+byPolicy.Binding, "/")
	}
	var byWebhook *webhook.Denial
	if errors.As(err, &byWebhook) {
		return byWebhook.Webhook
	}
	var failed *webhook.CallError
	if errors.As(err, &failed) {
		return failed.Webhook
	}
	if _, quota, ok := strings.Cut(s.Message, "exceeded quota: "); ok {
		name, _, _ := strings.Cut(quota, ",")
		return name
	}
	if _, level, ok := strings.Cut(s.Message, "violates PodSecurity \""); ok {
		name, _, _ := strings.Cut(level, "\"")
		return name
	}
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			if c.Field != "" {
				return c.Field
			}
		}
	}
	return ""
}

// refusal tells where a request that was answered with a Status was refused.
func (r *recording) refusal(s *metav1.Status) *Refusal {
	out := &Refusal{Phase: r.at, Plugin: r.plugin, Rule: rule(r.err, s), Status: *s}
	if r.err != nil {
		return out
	}
	switch {
	case s.Reason == metav1.StatusReasonNotFound, s.Reason == metav1.StatusReasonConflict, s.Reason == metav1.StatusReasonAlreadyExists,
		r.at == PhaseAdmit:
		out.Phase = PhaseStore
	case r.at == PhaseMutate:
		out.Phase = PhaseValidate
	case s.Reason == metav1.StatusReasonForbidden && !r.allowed:
		out.Phase = PhaseAuthorize
	default:
		out.Phase = PhaseDecode
	}
	return out
}
