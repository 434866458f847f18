package cluster

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/certificateapproval"
	"github.com/keelson-dev/keelson/admission/certificatesigning"
	"github.com/keelson-dev/keelson/admission/certificatesubjectrestriction"
	"github.com/keelson-dev/keelson/admission/clustertrustbundleattest"
	"github.com/keelson-dev/keelson/admission/defaultingressclass"
	"github.com/keelson-dev/keelson/admission/defaultstorageclass"
	"github.com/keelson-dev/keelson/admission/defaulttolerationseconds"
	"github.com/keelson-dev/keelson/admission/limitranger"
	"github.com/keelson-dev/keelson/admission/namespacelifecycle"
	"github.com/keelson-dev/keelson/admission/noderestriction"
	"github.com/keelson-dev/keelson/admission/persistentvolumeclaimresize"
	"github.com/keelson-dev/keelson/admission/podsecurity"
	"github.com/keelson-dev/keelson/admission/priority"
	"github.com/keelson-dev/keelson/admission/resourcequota"
	"github.com/keelson-dev/keelson/admission/runtimeclass"
	"github.com/keelson-dev/keelson/admission/serviceaccount"
	"github.com/keelson-dev/keelson/admission/storageobjectinuseprotection"
	"github.com/keelson-dev/keelson/admission/taintnodesbycondition"
	"github.com/keelson-dev/keelson/admission/unsupported"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/node"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/authz/superuser"
	"github.com/keelson-dev/keelson/registry"
)

func coreResource(name string) schema.GroupResource { return schema.GroupResource{Resource: name} }

func rbacResource(name string) schema.GroupResource {
	return schema.GroupResource{Group: rbacv1.GroupName, Resource: name}
}

// access decides who may do what.
type access struct {
	authz.Authorizer
	rbac *rbac.Authorizer // the last of the chain, which also lists a user's roles
}

// DefaultAuthorizers returns upstream's chain: system:masters, the Node authorizer, RBAC.
func DefaultAuthorizers() []AuthorizerStage {
	return []AuthorizerStage{
		Ready[authz.Authorizer](superuser.Name, superuser.New()),
		{"node", func(p ServerParts) (authz.Authorizer, error) {
			pods, err := registry.NewLive[*corev1.Pod](p.Registry, coreResource("pods"))
			if err != nil {
				return nil, err
			}
			requests, err := registry.NewLive[*certificatesv1.PodCertificateRequest](p.Registry, certificatesv1.Resource("podcertificaterequests"))
			if err != nil {
				return nil, err
			}
			return node.New(node.Sources{Pods: pods, CertificateRequests: requests}, rbac.Rules(bootstrap.NodeRules())), nil
		}},
		{"rbac", func(p ServerParts) (authz.Authorizer, error) { return p.RBAC, nil }},
	}
}

// newRoles makes the RBAC authorizer over the roles in the registry.
func (c *Cluster) newRoles() (*rbac.Authorizer, error) {
	var err error
	return rbac.New(rbac.Sources{
		Roles:               view[*rbacv1.Role](c.registry, rbacResource("roles"), &err),
		RoleBindings:        view[*rbacv1.RoleBinding](c.registry, rbacResource("rolebindings"), &err),
		ClusterRoles:        view[*rbacv1.ClusterRole](c.registry, rbacResource("clusterroles"), &err),
		ClusterRoleBindings: view[*rbacv1.ClusterRoleBinding](c.registry, rbacResource("clusterrolebindings"), &err),
	}), err
}

// newAccess makes the chain of authorizers.
func (c *Cluster) newAccess() (err error) {
	if c.access.rbac, err = c.newRoles(); err != nil {
		return err
	}
	all, err := made(c.options.Authorizers, c.serverParts())
	if err != nil {
		return err
	}
	chain := make([]authz.Named, len(all))
	for i, a := range all {
		chain[i] = authz.Named{Name: c.options.Authorizers[i].Name, Authorizer: a}
	}
	c.access.Authorizer = authz.Union(chain...)
	return nil
}

// escalation defers to authorizers that exist only once the cluster is assembled.
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

// DefaultAdmission returns upstream's plugins in upstream's order, as far as they exist here, and one that warns about
// fields that are not implemented yet.
func DefaultAdmission() []AdmissionStage {
	return []AdmissionStage{
		{namespacelifecycle.Name, func(p ServerParts) (admission.Plugin, error) {
			namespaces, err := registry.NewLive[*corev1.Namespace](p.Registry, coreResource("namespaces"))
			return namespacelifecycle.New(namespaces, namespacelifecycle.Options{}), err
		}},
		{limitranger.Name, func(p ServerParts) (admission.Plugin, error) {
			ranges, err := registry.NewLive[*corev1.LimitRange](p.Registry, coreResource("limitranges"))
			return limitranger.New(ranges), err
		}},
		{serviceaccount.Name, func(p ServerParts) (admission.Plugin, error) {
			accounts, err := registry.NewLive[*corev1.ServiceAccount](p.Registry, coreResource("serviceaccounts"))
			return serviceaccount.New(accounts, serviceaccount.Options{Suffix: p.Suffix}), err
		}},
		{noderestriction.Name, newNodeRestriction},
		Ready[admission.Plugin](taintnodesbycondition.Name, taintnodesbycondition.New()),
		{podsecurity.Name, newPodSecurity},
		{priority.Name, func(p ServerParts) (admission.Plugin, error) {
			classes, err := registry.NewLive[*schedulingv1.PriorityClass](p.Registry, schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"})
			return priority.New(classes), err
		}},
		Ready[admission.Plugin](defaulttolerationseconds.Name, defaulttolerationseconds.New(defaulttolerationseconds.Options{})),
		{defaultstorageclass.Name, func(p ServerParts) (admission.Plugin, error) {
			classes, err := registry.NewLive[*storagev1.StorageClass](p.Registry, schema.GroupResource{Group: storagev1.GroupName, Resource: "storageclasses"})
			return defaultstorageclass.New(classes), err
		}},
		Ready[admission.Plugin](storageobjectinuseprotection.Name, storageobjectinuseprotection.New()),
		{persistentvolumeclaimresize.Name, func(p ServerParts) (admission.Plugin, error) {
			classes, err := registry.NewLive[*storagev1.StorageClass](p.Registry, schema.GroupResource{Group: storagev1.GroupName, Resource: "storageclasses"})
			return persistentvolumeclaimresize.New(classes), err
		}},
		{runtimeclass.Name, func(p ServerParts) (admission.Plugin, error) {
			classes, err := registry.NewLive[*nodev1.RuntimeClass](p.Registry, schema.GroupResource{Group: nodev1.GroupName, Resource: "runtimeclasses"})
			return runtimeclass.New(classes), err
		}},
		{certificateapproval.Name, func(p ServerParts) (admission.Plugin, error) { return certificateapproval.New(p.Authorizer), nil }},
		{certificatesigning.Name, func(p ServerParts) (admission.Plugin, error) { return certificatesigning.New(p.Authorizer), nil }},
		{clustertrustbundleattest.Name, func(p ServerParts) (admission.Plugin, error) { return clustertrustbundleattest.New(p.Authorizer), nil }},
		Ready[admission.Plugin](certificatesubjectrestriction.Name, certificatesubjectrestriction.New()),
		{defaultingressclass.Name, func(p ServerParts) (admission.Plugin, error) {
			classes, err := registry.NewLive[*networkingv1.IngressClass](p.Registry, schema.GroupResource{Group: networkingv1.GroupName, Resource: "ingressclasses"})
			return defaultingressclass.New(classes), err
		}},
		Ready[admission.Plugin](unsupported.Name, unsupported.New(registry.Warn)),
		{resourcequota.Name, newQuotaPlugin},
	}
}

func newNodeRestriction(p ServerParts) (admission.Plugin, error) {
	var err error
	return noderestriction.New(noderestriction.Sources{
		Pods:            view[*corev1.Pod](p.Registry, coreResource("pods"), &err),
		Nodes:           view[*corev1.Node](p.Registry, coreResource("nodes"), &err),
		ServiceAccounts: view[*corev1.ServiceAccount](p.Registry, coreResource("serviceaccounts"), &err),
	}, p.Authorizer), err
}

func newPodSecurity(p ServerParts) (admission.Plugin, error) {
	var err error
	namespaces := view[*corev1.Namespace](p.Registry, coreResource("namespaces"), &err)
	pods := view[*corev1.Pod](p.Registry, coreResource("pods"), &err)
	if err != nil {
		return nil, err
	}
	return podsecurity.New(namespaces, pods, podsecurity.Options{Warn: registry.Warn, Annotate: audit.Annotate})
}

// admissionChain makes the plugins, in the order in which they run.
func (c *Cluster) admissionChain() (admission.Chain, error) {
	plugins, err := made(c.options.Admission, c.serverParts())
	return admission.Ordered(plugins...), err
}

// view reads a kind without lag: an acknowledged write affects the next request.
func view[T registry.Object](r *registry.Registry, gr schema.GroupResource, err *error) *registry.Live[T] {
	v, viewErr := registry.NewLive[T](r, gr)
	if viewErr != nil {
		*err = fmt.Errorf("cluster: %w", viewErr)
	}
	return v
}
