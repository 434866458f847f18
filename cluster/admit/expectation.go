package admit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

// expectation is what is wanted of a case. What is left out is not compared, except that a request without refused must be
// admitted.
type expectation struct {
	Refused *refused `json:"refused,omitempty"`
	// Steps are maps of one entry: the name of a step and its changes.
	Steps    []map[string][]string `json:"steps"`
	Warnings []string              `json:"warnings"`
	Audit    map[string]string     `json:"audit"`
	// Costs are by POLICY/PART.
	Costs map[string]int64 `json:"costs"`
}

type refused struct {
	Phase   string `json:"phase,omitempty"`
	Plugin  string `json:"plugin,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Code    int32  `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Outcome is what became of a case.
type Outcome struct {
	Case
	Result *Result
	// Differences tell what is not as the file wants it, by field of want: what was wanted, and what is. Of a case without want, that
	// is the only one.
	Differences []string
}

// Run asks a world for each case, in order.
func (s *Suite) Run(ctx context.Context, w *World) ([]Outcome, error) {
	cases, err := s.Cases()
	if err != nil {
		return nil, err
	}
	all := make([]Outcome, len(cases))
	for i, c := range cases {
		if all[i], err = c.Run(ctx, w); err != nil {
			return nil, s.failed(c.Line, fmt.Errorf("%s: %w", c.Name, err))
		}
	}
	return all, nil
}

// Run asks a world for the case.
func (c Case) Run(ctx context.Context, w *World) (Outcome, error) {
	r, err := w.Ask(ctx, c.Request)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Case: c, Result: r}
	if c.want == nil {
		out.Differences = []string{"the case does not say what it wants"}
		return out, nil
	}
	want, got, err := c.compared(r)
	if err != nil {
		return out, err
	}
	for _, d := range diff(nil, "", want, got) {
		out.Differences = append(out.Differences, d.String())
	}
	return out, nil
}

// compared returns what is wanted, and what there is of it.
func (c Case) compared(r *Result) (want, got map[string]any, err error) {
	if got, err = treeOfValue(c.got(r)); err != nil || c.want == nil {
		return nil, got, err
	}
	if want, err = treeOfValue(c.want); err != nil {
		return nil, nil, err
	}
	only(want, got)
	if w, ok := want["refused"].(map[string]any); ok {
		if g, ok := got["refused"].(map[string]any); ok {
			only(w, g)
		}
	}
	return want, got, nil
}

// only removes what nobody has asked for: all that want leaves out, but for a refusal.
func only(want, got map[string]any) {
	for key, value := range want {
		if value == nil {
			delete(want, key)
		}
	}
	maps.DeleteFunc(got, func(key string, _ any) bool {
		_, ok := want[key]
		return !ok && key != "refused"
	})
}

func treeOfValue(value any) (map[string]any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	return tree, json.Unmarshal(data, &tree)
}

// got is the expectation that a result meets.
func (c Case) got(r *Result) *expectation {
	stable := c.stable()
	e := &expectation{Steps: []map[string][]string{}, Warnings: []string{}, Audit: map[string]string{}, Costs: map[string]int64{}}
	if f := r.Refusal; f != nil {
		e.Refused = &refused{
			Phase: f.Phase.String(), Plugin: f.Plugin, Rule: stable(f.Rule), Code: f.Status.Code, Reason: string(f.Status.Reason), Message: stable(f.Status.Message),
		}
	}
	for _, s := range r.Steps {
		lines := []string{}
		for _, change := range s.Changes() {
			lines = append(lines, stable(change.String()))
		}
		if len(lines) > 0 {
			e.Steps = append(e.Steps, map[string][]string{s.String(): lines})
		}
	}
	for _, text := range r.Warnings {
		e.Warnings = append(e.Warnings, stable(text))
	}
	for key, value := range r.Annotations {
		e.Audit[key] = stable(value)
	}
	for _, cost := range r.Costs {
		e.Costs[cost.Policy+"/"+cost.Part] += cost.Units
	}
	return e
}

// stable returns a function that replaces what is random in generated names, of the object and of the volume with its account's
// token, by question marks.
func (c Case) stable() func(string) string {
	bases := []string{"kube-api-access-"}
	if obj, err := meta.Accessor(c.Request.Object); err == nil && obj.GetGenerateName() != "" && obj.GetName() == "" {
		bases = append(bases, obj.GetGenerateName())
	}
	for i, base := range bases {
		bases[i] = regexp.QuoteMeta(base)
	}
	names := regexp.MustCompile(`\b(` + bases[0] + `|` + bases[len(bases)-1] + `)[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	return func(text string) string { return names.ReplaceAllString(text, "${1}?????") }
}

// Update returns the text of the file with what became of the given cases as what they want: the fields that are compared, or all
// fields if a case has no want. Everything else stays as it is, and so do cases without differences.
func (s *Suite) Update(outcomes []Outcome) ([]byte, error) {
	var out bytes.Buffer
	for i, p := range s.parts {
		text := p.text
		if at := slices.IndexFunc(outcomes, func(o Outcome) bool { return o.at == i && len(o.Differences) > 0 }); at >= 0 {
			_, got, err := outcomes[at].compared(outcomes[at].Result)
			if err != nil {
				return nil, err
			}
			want, err := boundedyaml.Marshal(map[string]any{"want": got})
			if err != nil {
				return nil, err
			}
			text = replace(text, want)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}

// replace replaces the top-level field want of a document, or appends it.
func replace(text, want []byte) []byte {
	var out []byte
	state := 0 // before, inside, after
	for line := range bytes.Lines(text) {
		top := len(bytes.TrimSpace(line)) > 0 && line[0] != ' ' && line[0] != '-'
		switch {
		case state == 0 && bytes.HasPrefix(line, []byte("want:")):
			state = 1
			out = append(out, want...)
			continue
		case state == 1 && !top:
			continue
		case state == 1:
			state = 2
		}
		out = append(out, line...)
	}
	if state == 0 {
		if len(out) > 0 && out[len(out)-1] != '\n' {
			out = append(out, '\n')
		}
		out = append(out, want...)
	}
	return out
}
