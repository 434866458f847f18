package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/defaulttolerationseconds"
	"github.com/keelson-dev/keelson/admission/namespacelifecycle"
	"github.com/keelson-dev/keelson/admission/noderestriction"
	"github.com/keelson-dev/keelson/admission/podsecurity"
	"github.com/keelson-dev/keelson/admission/priority"
	"github.com/keelson-dev/keelson/admission/resourcequota"
	"github.com/keelson-dev/keelson/admission/serviceaccount"
	"github.com/keelson-dev/keelson/admission/taintnodesbycondition"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/node"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/authz/superuser"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
)

func coreResource(name string) schema.GroupResource { return schema.GroupResource{Resource: name} }

func rbacResource(name string) schema.GroupResource {
	return schema.GroupResource{Group: rbacv1.GroupName, Resource: name}
}

// access decides who may do what.
type access struct {
	authz.Authorizer
	rbac *rbac.Authorizer // the last of the chain, which also knows what somebody's roles are
}

// authorizers are upstream's chain: system:masters, the Node authorizer, RBAC.
func (c *Cluster) authorizers() (access, error) {
	var err error
	roles := rbac.New(rbac.Sources{
		Roles:               view[*rbacv1.Role](c.registry, rbacResource("roles"), &err),
		RoleBindings:        view[*rbacv1.RoleBinding](c.registry, rbacResource("rolebindings"), &err),
		ClusterRoles:        view[*rbacv1.ClusterRole](c.registry, rbacResource("clusterroles"), &err),
		ClusterRoleBindings: view[*rbacv1.ClusterRoleBinding](c.registry, rbacResource("clusterrolebindings"), &err),
	})
	nodes := node.New(node.Sources{Pods: view[*corev1.Pod](c.registry, coreResource("pods"), &err)}, rbac.Rules(bootstrap.NodeRules()))
	chain := []authz.Named{{Name: superuser.Name, Authorizer: superuser.New()}, {Name: "node", Authorizer: nodes}}
	chain = append(chain, c.options.Authorizers...)
	chain = append(chain, authz.Named{Name: "rbac", Authorizer: roles})
	return access{authz.Union(chain...), roles}, err
}

// escalation judges role writes by rules that are there only once the cluster is assembled.
type escalation struct{ cluster *Cluster }

func (e escalation) check() *rbac.Escalation {
	return rbac.NewEscalation(e.cluster.access.rbac, e.cluster.access.Authorizer)
}

func (e escalation) CheckRole(ctx context.Context, namespace, name string, rules []rbacv1.PolicyRule, aggregates bool) error {
	return e.check().CheckRole(ctx, namespace, name, rules, aggregates)
}

func (e escalation) CheckBinding(ctx context.Context, namespace string, role rbacv1.RoleRef) error {
	return e.check().CheckBinding(ctx, namespace, role)
}

// AdmissionPlugins are the names of the built-in admission plugins, by upstream's names and in its
// order.
func AdmissionPlugins() []string {
	return []string{
		namespacelifecycle.Name, serviceaccount.Name, noderestriction.Name, taintnodesbycondition.Name, podsecurity.Name,
		priority.Name, defaulttolerationseconds.Name, resourcequota.Name,
	}
}

// admissionChain are the built-in plugins and the user's, of which one takes the place of the
// built-in one of its name.
func (c *Cluster) admissionChain() (admission.Chain, error) {
	builtin, err := c.builtinAdmission()
	given := c.options.Admission
	builtin = slices.DeleteFunc(builtin, func(p admission.Plugin) bool {
		return !c.enabled(p.Name()) || slices.ContainsFunc(given, func(g admission.Plugin) bool { return g.Name() == p.Name() })
	})
	return admission.Ordered(append(builtin, given...)...), err
}

// builtinAdmission are the plugins of upstream that exist here. ServiceAccount needs somebody
// who creates the accounts, so it goes with that controller.
func (c *Cluster) builtinAdmission() ([]admission.Plugin, error) {
	var err error
	namespaces := view[*corev1.Namespace](c.registry, coreResource("namespaces"), &err)
	pods := view[*corev1.Pod](c.registry, coreResource("pods"), &err)
	plugins := []admission.Plugin{
		namespacelifecycle.New(namespaces, namespacelifecycle.Options{}),
		noderestriction.New(noderestriction.Sources{
			Pods: pods, Nodes: view[*corev1.Node](c.registry, coreResource("nodes"), &err),
			ServiceAccounts: view[*corev1.ServiceAccount](c.registry, coreResource("serviceaccounts"), &err),
		}, c.access.Authorizer),
		taintnodesbycondition.New(),
		defaulttolerationseconds.New(defaulttolerationseconds.Options{}),
		priority.New(view[*schedulingv1.PriorityClass](c.registry, schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}, &err)),
		c.newQuotaPlugin(&err),
	}
	if err != nil {
		return nil, err
	}
	security, err := podsecurity.New(namespaces, pods, podsecurity.Options{Warn: registry.Warn, Annotate: audit.Annotate})
	if err != nil {
		return nil, err
	}
	plugins = append(plugins, security)
	if c.needsAccount() {
		accounts := shared[*corev1.ServiceAccount](c.informers, coreResource("serviceaccounts"), &err)
		accounts.AddHandler(informer.Handler[*corev1.ServiceAccount]{Added: func(account *corev1.ServiceAccount) {
			if account.Namespace == "default" && account.Name == "default" {
				c.life.ready.fire()
			}
		}})
		plugins = append(plugins, serviceaccount.New(view[*corev1.ServiceAccount](c.registry, coreResource("serviceaccounts"), &err),
			serviceaccount.Options{Suffix: c.ids.Suffix}))
	}
	return plugins, err
}

// view reads a kind without lag: what a write has been acknowledged for, decides the next request.
func view[T registry.Object](r *registry.Registry, gr schema.GroupResource, err *error) *registry.Live[T] {
	v, viewErr := registry.NewLive[T](r, gr)
	if viewErr != nil {
		*err = fmt.Errorf("cluster: %w", viewErr)
	}
	return v
}
