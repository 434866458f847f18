package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/alwaysadmit"
	"github.com/keelson-dev/keelson/admission/alwaysdeny"
	"github.com/keelson-dev/keelson/admission/alwayspullimages"
	"github.com/keelson-dev/keelson/admission/certificateapproval"
	"github.com/keelson-dev/keelson/admission/certificatesigning"
	"github.com/keelson-dev/keelson/admission/certificatesubjectrestriction"
	"github.com/keelson-dev/keelson/admission/clustertrustbundleattest"
	"github.com/keelson-dev/keelson/admission/defaultingressclass"
	"github.com/keelson-dev/keelson/admission/defaultstorageclass"
	"github.com/keelson-dev/keelson/admission/defaulttolerationseconds"
	"github.com/keelson-dev/keelson/admission/denyserviceexternalips"
	"github.com/keelson-dev/keelson/admission/extendedresourcetoleration"
	"github.com/keelson-dev/keelson/admission/limitpodhardantiaffinitytopology"
	"github.com/keelson-dev/keelson/admission/limitranger"
	"github.com/keelson-dev/keelson/admission/namespaceautoprovision"
	"github.com/keelson-dev/keelson/admission/namespaceexists"
	"github.com/keelson-dev/keelson/admission/namespacelifecycle"
	"github.com/keelson-dev/keelson/admission/nodedeclaredfeaturevalidator"
	"github.com/keelson-dev/keelson/admission/noderestriction"
	"github.com/keelson-dev/keelson/admission/ownerreferencespermissionenforcement"
	"github.com/keelson-dev/keelson/admission/persistentvolumeclaimresize"
	"github.com/keelson-dev/keelson/admission/podnodeselector"
	"github.com/keelson-dev/keelson/admission/podresizevalidator"
	"github.com/keelson-dev/keelson/admission/podsecurity"
	"github.com/keelson-dev/keelson/admission/podtolerationrestriction"
	"github.com/keelson-dev/keelson/admission/podtopologylabels"
	"github.com/keelson-dev/keelson/admission/priority"
	"github.com/keelson-dev/keelson/admission/resourcequota"
	"github.com/keelson-dev/keelson/admission/runtimeclass"
	"github.com/keelson-dev/keelson/admission/serviceaccount"
	"github.com/keelson-dev/keelson/admission/storageobjectinuseprotection"
	"github.com/keelson-dev/keelson/admission/taintnodesbycondition"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/direct"
)

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
		{podtopologylabels.Name, func(p ServerParts) (admission.Plugin, error) {
			nodes, err := registry.NewLive[*corev1.Node](p.Registry, coreResource("nodes"))
			return podtopologylabels.New(nodes), err
		}},
		{nodedeclaredfeaturevalidator.Name, func(p ServerParts) (admission.Plugin, error) {
			nodes, err := registry.NewLive[*corev1.Node](p.Registry, coreResource("nodes"))
			return nodedeclaredfeaturevalidator.New(nodes), err
		}},
		{podresizevalidator.Name, func(p ServerParts) (admission.Plugin, error) {
			nodes, err := registry.NewLive[*corev1.Node](p.Registry, coreResource("nodes"))
			return podresizevalidator.New(nodes), err
		}},
		{resourcequota.Name, newQuotaPlugin},
	}
}

// OptionalAdmission returns the plugins that upstream leaves off by default and that need no configuration, in upstream's order.
// NodeRestriction, which upstream leaves off as well, is one of DefaultAdmission.
func OptionalAdmission() []AdmissionStage {
	return []AdmissionStage{
		Ready[admission.Plugin](alwaysadmit.Name, alwaysadmit.New()),
		{namespaceautoprovision.Name, func(p ServerParts) (admission.Plugin, error) {
			namespaces, err := liveNamespaces(p)
			as := direct.New(p.Registry, direct.Options{})
			return namespaceautoprovision.New(namespaces, func(ctx context.Context, ns *corev1.Namespace) error {
				_, err := as.Create(ctx, client.Target{Resource: corev1.SchemeGroupVersion.WithResource("namespaces"), Name: ns.Name}, ns, metav1.CreateOptions{})
				return err
			}), err
		}},
		{namespaceexists.Name, func(p ServerParts) (admission.Plugin, error) {
			namespaces, err := liveNamespaces(p)
			return namespaceexists.New(namespaces), err
		}},
		Ready[admission.Plugin](limitpodhardantiaffinitytopology.Name, limitpodhardantiaffinitytopology.New()),
		Ready[admission.Plugin](alwayspullimages.Name, alwayspullimages.New()),
		{podnodeselector.Name, func(p ServerParts) (admission.Plugin, error) {
			namespaces, err := liveNamespaces(p)
			if err != nil {
				return nil, err
			}
			return podnodeselector.New(namespaces, podnodeselector.Options{})
		}},
		{podtolerationrestriction.Name, func(p ServerParts) (admission.Plugin, error) {
			namespaces, err := liveNamespaces(p)
			return podtolerationrestriction.New(namespaces, podtolerationrestriction.Options{}), err
		}},
		Ready[admission.Plugin](extendedresourcetoleration.Name, extendedresourcetoleration.New()),
		{ownerreferencespermissionenforcement.Name, func(p ServerParts) (admission.Plugin, error) {
			return ownerreferencespermissionenforcement.New(p.Authorizer, resolver(p.Registry)), nil
		}},
		Ready[admission.Plugin](denyserviceexternalips.Name, denyserviceexternalips.New()),
		Ready[admission.Plugin](alwaysdeny.Name, alwaysdeny.New()),
	}
}

func liveNamespaces(p ServerParts) (*registry.Live[*corev1.Namespace], error) {
	return registry.NewLive[*corev1.Namespace](p.Registry, coreResource("namespaces"))
}

// resolver looks kinds up among those that are served.
func resolver(r *registry.Registry) ownerreferencespermissionenforcement.Resolve {
	return func(gvk schema.GroupVersionKind) ([]ownerreferencespermissionenforcement.Served, error) {
		var all []ownerreferencespermissionenforcement.Served
		for _, k := range r.Kinds() {
			if k.GroupVersion.Group == gvk.Group && k.Names.Kind == gvk.Kind {
				all = append(all, ownerreferencespermissionenforcement.Served{GroupVersionResource: k.GroupVersion.WithResource(k.Names.Plural), Namespaced: k.Namespaced})
			}
		}
		if len(all) == 0 {
			return nil, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
		}
		return all, nil
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
