package rbac

import (
	"fmt"
	"slices"
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
	// ByIndex returns the objects indexed under value, in the order of their names.
	ByIndex(name, value string) []T
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
		Roles: newFixed(p.Roles), RoleBindings: newFixed(p.RoleBindings),
		ClusterRoles: newFixed(p.ClusterRoles), ClusterRoleBindings: newFixed(p.ClusterRoleBindings),
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

// fixed is an indexed set of objects that does not change after the first read.
type fixed[T metav1.Object] struct {
	objects []T
	byKey   map[[2]string]T
	indexes map[string]map[string][]T
}

func newFixed[T metav1.Object](objects []T) *fixed[T] {
	f := &fixed[T]{objects: slices.Clone(objects), byKey: make(map[[2]string]T, len(objects)), indexes: map[string]map[string][]T{}}
	slices.SortStableFunc(f.objects, func(a, b T) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	for _, obj := range f.objects {
		f.byKey[[2]string{obj.GetNamespace(), obj.GetName()}] = obj
	}
	return f
}

func (f *fixed[T]) Get(namespace, name string) (T, bool) {
	obj, ok := f.byKey[[2]string{namespace, name}]
	return obj, ok
}

func (f *fixed[T]) AddIndex(name string, values func(T) []string) {
	index := map[string][]T{}
	for _, obj := range f.objects {
		for _, value := range values(obj) {
			index[value] = append(index[value], obj)
		}
	}
	f.indexes[name] = index
}

func (f *fixed[T]) ByIndex(name, value string) []T { return f.indexes[name][value] }

func (f *fixed[T]) List(namespace string) []T {
	if namespace == "" {
		return f.objects
	}
	var in []T
	for _, obj := range f.objects {
		if obj.GetNamespace() == namespace {
			in = append(in, obj)
		}
	}
	return in
}
