package kinds_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	_ "k8s.io/kubernetes/pkg/apis/storagemigration/install"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/resolver"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/certificates/clustertrustbundle"
	"k8s.io/kubernetes/pkg/registry/certificates/podcertificaterequest"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/prioritylevelconfiguration"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattributesclass"
	"k8s.io/kubernetes/pkg/registry/storagemigration/storagemigration"
)

// strategy is the API server's strategy for a resource or a subresource.
type strategy interface {
	rest.RESTUpdateStrategy
	rest.DeclarativeValidationStrategy
}

func strategies() map[string]strategy {
	// Without an authorizer, everybody may read the parameters of policies.
	resources := resolver.ResourceResolverFunc(func(schema.GroupVersionKind) (schema.GroupVersionResource, error) {
		return schema.GroupVersionResource{}, nil
	})
	policies := validatingadmissionpolicy.NewStrategy(nil, resources)
	claims := resourceclaim.NewStrategy(namespaces{}, everything{})
	return map[string]strategy{
		"flowschemas": flowschema.Strategy, "flowschemas/status": flowschema.StatusStrategy,
		"prioritylevelconfigurations":        prioritylevelconfiguration.Strategy,
		"prioritylevelconfigurations/status": prioritylevelconfiguration.StatusStrategy,
		"deviceclasses":                      deviceclass.Strategy, "resourceslices": resourceslice.Strategy,
		"devicetaintrules": devicetaintrule.Strategy, "devicetaintrules/status": devicetaintrule.StatusStrategy,
		"resourceclaims": claims, "resourceclaims/status": resourceclaim.NewStatusStrategy(claims),
		"resourceclaimtemplates":      resourceclaimtemplate.NewStrategy(namespaces{}),
		"validatingadmissionpolicies": policies, "validatingadmissionpolicies/status": validatingadmissionpolicy.NewStatusStrategy(policies),
		"validatingadmissionpolicybindings": validatingadmissionpolicybinding.NewStrategy(nil, nil, resources),
		"mutatingadmissionpolicies":         mutatingadmissionpolicy.NewStrategy(nil, resources),
		"mutatingadmissionpolicybindings":   mutatingadmissionpolicybinding.NewStrategy(nil, nil, resources),
		"namespaces":                        namespace.Strategy, "namespaces/status": namespace.StatusStrategy, "namespaces/finalize": namespace.FinalizeStrategy,
		"nodes": node.Strategy, "nodes/status": node.StatusStrategy,
		"configmaps": configmap.Strategy, "secrets": secret.Strategy, "serviceaccounts": serviceaccount.Strategy,
		"resourcequotas": resourcequota.Strategy, "resourcequotas/status": resourcequota.StatusStrategy,
		"services": service.Strategy, "services/status": service.StatusStrategy,
		"endpoints": endpoint.Strategy, "events": event.Strategy,
		"deployments": deployment.Strategy, "deployments/status": deployment.StatusStrategy,
		"replicasets": replicaset.Strategy, "replicasets/status": replicaset.StatusStrategy,
		"controllerrevisions": controllerrevision.Strategy,
		"endpointslices":      endpointslice.Strategy, "leases": lease.Strategy,
		"poddisruptionbudgets": poddisruptionbudget.Strategy, "poddisruptionbudgets/status": poddisruptionbudget.StatusStrategy,
		"priorityclasses": priorityclass.Strategy,
		"csinodes":        csinode.Strategy, "csinodes/status": csinode.StatusStrategy,
		"replicationcontrollers": replicationcontroller.Strategy, "replicationcontrollers/status": replicationcontroller.StatusStrategy,
		"persistentvolumes": persistentvolume.Strategy, "persistentvolumes/status": persistentvolume.StatusStrategy,
		"persistentvolumeclaims": persistentvolumeclaim.Strategy, "persistentvolumeclaims/status": persistentvolumeclaim.StatusStrategy,
		"limitranges":  limitrange.Strategy,
		"statefulsets": statefulset.Strategy, "statefulsets/status": statefulset.StatusStrategy,
		"daemonsets": daemonset.Strategy, "daemonsets/status": daemonset.StatusStrategy,
		"jobs": job.Strategy, "jobs/status": job.StatusStrategy,
		"cronjobs": cronjob.Strategy, "cronjobs/status": cronjob.StatusStrategy,
		"horizontalpodautoscalers": horizontalpodautoscaler.Strategy, "horizontalpodautoscalers/status": horizontalpodautoscaler.StatusStrategy,
		"storageclasses": storageclass.Strategy, "csidrivers": csidriver.Strategy,
		"volumeattachments": volumeattachment.Strategy, "volumeattachments/status": volumeattachment.StatusStrategy,
		"csistoragecapacities": csistoragecapacity.Strategy, "volumeattributesclasses": volumeattributesclass.Strategy,
		"certificatesigningrequests": certificates.Strategy, "certificatesigningrequests/status": certificates.StatusStrategy,
		"certificatesigningrequests/approval": certificates.ApprovalStrategy,
		"clustertrustbundles":                 clustertrustbundle.Strategy,
		"podcertificaterequests":              podcertificaterequest.NewStrategy(),
		"runtimeclasses":                      runtimeclass.Strategy,
		"storageversionmigrations":            storagemigration.Strategy, "storageversionmigrations/status": storagemigration.StatusStrategy,
	}
}

// namespaces all let claims have administrative access.
type namespaces struct {
	corev1client.NamespaceInterface
}

func (namespaces) Get(context.Context, string, metav1.GetOptions) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{resourcev1.DRAAdminNamespaceLabelKey: "true"}}}, nil
}

// everything is allowed.
type everything struct{}

func (everything) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// server is the API server, for one resource in one of its versions.
type server struct {
	version  schema.GroupVersion
	resource string
}

func (s server) context(view string) context.Context {
	ctx := request.WithUser(request.WithNamespace(context.Background(), "ns"), &user.DefaultInfo{Name: "ann"})
	return request.WithRequestInfo(ctx, &request.RequestInfo{
		APIGroup: s.version.Group, APIVersion: s.version.Version, Resource: s.resource, Subresource: view,
	})
}

// decode defaults obj and makes it an internal object; nil if it cannot be decoded.
func (s server) decode(obj runtime.Object) runtime.Object {
	obj = obj.DeepCopyObject()
	legacyscheme.Scheme.Default(obj)
	in, err := legacyscheme.Scheme.UnsafeConvertToVersion(obj, runtime.InternalGroupVersioner)
	if err != nil {
		return nil
	}
	return in
}

// encode is the reverse, without the type.
func (s server) encode(t *testing.T, obj runtime.Object, version schema.GroupVersion) runtime.Object {
	t.Helper()
	out, err := legacyscheme.Scheme.UnsafeConvertToVersion(obj.DeepCopyObject(), version)
	if err != nil {
		t.Fatal(err)
	}
	out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return out
}

// create prepares obj and returns its errors.
func (s server) create(obj runtime.Object) field.ErrorList {
	ctx, up := s.context(""), strategies()[s.resource].(interface {
		strategy
		rest.RESTCreateStrategy
	})
	up.PrepareForCreate(ctx, obj)
	errs := up.Validate(ctx, obj)
	return up.ValidateDeclaratively(ctx, obj, nil, errs, operation.Create, up.DeclarativeValidationConfig(ctx, obj, nil))
}

// update prepares obj to replace old in a view, and returns its errors.
func (s server) update(view string, obj, old runtime.Object) field.ErrorList {
	name := s.resource
	if view != "" {
		name += "/" + view
	}
	ctx, up := s.context(view), strategies()[name]
	up.PrepareForUpdate(ctx, obj, old)
	errs := up.ValidateUpdate(ctx, obj, old)
	return up.ValidateDeclaratively(ctx, obj, old, errs, operation.Update, up.DeclarativeValidationConfig(ctx, obj, old))
}
