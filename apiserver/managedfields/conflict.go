package managedfields

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
)

// Conflict is a field that an apply would change and that another manager owns.
type Conflict struct {
	Owner string // as upstream prints it: the manager's name, quoted, and how it came to own the field
	Field string // its path
}

// ConflictError says which fields an apply cannot change without force.
type ConflictError struct {
	Conflicts []Conflict // by owner, then as fields are listed
}

// Error implements error, in upstream's words.
func (e *ConflictError) Error() string {
	if len(e.Conflicts) == 1 {
		return fmt.Sprintf("Apply failed with 1 conflict: conflict with %s: %s", e.Conflicts[0].Owner, e.Conflicts[0].Field)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Apply failed with %d conflicts: ", len(e.Conflicts))
	for i, c := range e.Conflicts {
		if i == 0 || c.Owner != e.Conflicts[i-1].Owner {
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "conflicts with %s:", c.Owner)
		}
		fmt.Fprintf(&b, "\n- %s", c.Field)
	}
	return b.String()
}

// newConflictError puts the library's conflicts in order: by owner, then as fields are listed.
func newConflictError(conflicts merge.Conflicts, m *managed) *ConflictError {
	slices.SortStableFunc(conflicts, func(a, b merge.Conflict) int { return cmp.Compare(a.Manager, b.Manager) })
	e := &ConflictError{}
	for _, c := range conflicts {
		e.Conflicts = append(e.Conflicts, Conflict{Owner: m.owner[c.Manager].String(), Field: c.Path.String()})
	}
	return e
}

// String is the owner as upstream shows it.
func (o owner) String() string {
	text := fmt.Sprintf("%q", o.name)
	if o.subresource != "" {
		text += fmt.Sprintf(" with subresource %q", o.subresource)
	}
	if o.operation == metav1.ManagedFieldsOperationUpdate {
		text += " using " + o.version
	}
	return text
}

// beyond returns the conflicts over fields that are not in allowed.
func beyond(conflicts merge.Conflicts, allowed *fieldpath.Set) merge.Conflicts {
	return slices.DeleteFunc(slices.Clone(conflicts), func(c merge.Conflict) bool { return allowed.Has(c.Path) })
}
