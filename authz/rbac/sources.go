package rbac

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Getter reads one object by name, and returns false if it does not exist; cluster roles have no namespace. An informer
// implements it.
type Getter[T any] interface {
	Get(namespace, name string) (T, bool)
}

// Indexed reads objects by an index. An informer implements it.
type Indexed[T any] interface {
	// AddIndex adds an index by the values that a function computes; it is called before any read.
	AddIndex(name string, values func(T) []string)
	// ByIndexIn returns the objects of a namespace, or of all if it is empty, that are indexed under value, in the order of
	// their names. The slice may be shared: callers only read it.
	ByIndexIn(name, value, namespace string) []T
	// List returns the objects of a namespace in the order of their names, or of all namespaces if it is empty.
	List(namespace string) []T
}

// Sources are what an Authorizer reads; all four are required. Objects are shared and immutable.
type Sources struct {
	Roles               Getter[*rbacv1.Role]
	RoleBindings        Indexed[*rbacv1.RoleBinding]
	ClusterRoles        Getter[*rbacv1.ClusterRole]
	ClusterRoleBindings Indexed[*rbacv1.ClusterRoleBinding]
}

// Policy is a set of roles and bindings. Its objects may be in any order.
type Policy struct {
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
}

// Sources returns the current content of p for an Authorizer: for tests, and to try out a policy before it takes
// effect.
func (p Policy) Sources() Sources {
	return Sources{
		Roles: newFixedNames(p.Roles), RoleBindings: newFixed(p.RoleBindings),
		ClusterRoles: newFixedNames(p.ClusterRoles), ClusterRoleBindings: newFixed(p.ClusterRoleBindings),
	}
}

// NotFoundError says that a binding refers to a role that does not exist.
type NotFoundError struct {
	// Kind is "Role" or "ClusterRole".
	Kind      string
	Namespace string
	Name      string
}

// Error implements error with the text of upstream's listers.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s.%s %q not found", strings.ToLower(e.Kind), rbacv1.GroupName, e.Name)
}

// MissingRole returns the resource and the name of the role, for callers that distinguish missing roles from other
// errors without importing this package.
func (e *NotFoundError) MissingRole() (resource, name string) {
	return strings.ToLower(e.Kind) + "s", e.Name
}

// fixedNames are objects by name that do not change.
type fixedNames[T metav1.Object] map[[2]string]T

func newFixedNames[T metav1.Object](objects []T) fixedNames[T] {
	f := make(fixedNames[T], len(objects))
	for _, obj := range objects {
		f[[2]string{obj.GetNamespace(), obj.GetName()}] = obj
	}
	return f
}

// Get implements Getter.
func (f fixedNames[T]) Get(namespace, name string) (T, bool) {
	obj, ok := f[[2]string{namespace, name}]
	return obj, ok
}

// fixed is an indexed set of objects that does not change after the first read.
type fixed[T metav1.Object] struct {
	objects []T // by namespace, then by name
	indexes map[string]fixedIndex[T]
}

// fixedIndex has the objects of every value side by side, which takes less memory than a slice for each.
type fixedIndex[T metav1.Object] struct {
	objects []T
	values  map[string]span
}

type span struct{ from, to int32 }

func newFixed[T metav1.Object](objects []T) *fixed[T] {
	f := &fixed[T]{objects: slices.Clone(objects), indexes: map[string]fixedIndex[T]{}}
	slices.SortStableFunc(f.objects, func(a, b T) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return f
}

// AddIndex implements Indexed.
func (f *fixed[T]) AddIndex(name string, values func(T) []string) {
	all := map[string][]T{}
	entries := 0
	for _, obj := range f.objects {
		for _, value := range values(obj) {
			all[value] = append(all[value], obj)
			entries++
		}
	}
	index := fixedIndex[T]{make([]T, 0, entries), make(map[string]span, len(all))}
	for value, objects := range all {
		from := len(index.objects)
		index.objects = append(index.objects, objects...)
		index.values[value] = span{int32(from), int32(len(index.objects))}
	}
	f.indexes[name] = index
}

// ByIndexIn implements Indexed.
func (f *fixed[T]) ByIndexIn(name, value, namespace string) []T {
	index := f.indexes[name]
	s := index.values[value]
	return within(index.objects[s.from:s.to:s.to], namespace)
}

// List implements Indexed.
func (f *fixed[T]) List(namespace string) []T { return within(f.objects, namespace) }

// within returns the part of the objects, which are in order, that is in a namespace, or all if it is empty.
func within[T metav1.Object](objects []T, namespace string) []T {
	if namespace == "" {
		return objects
	}
	from := sort.Search(len(objects), func(i int) bool { return objects[i].GetNamespace() >= namespace })
	to := from // The list of a user or a group seldom has many of one namespace, and whoever asks reads them all.
	for to < len(objects) && objects[to].GetNamespace() == namespace {
		to++
	}
	return objects[from:to:to]
}
