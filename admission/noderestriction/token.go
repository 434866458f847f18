package noderestriction

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-dev/keelson/admission"
)

// token lets a node get the tokens that its pods mount. Such a token is bound to the pod, and names the node.
func (p *Plugin) token(ctx context.Context, q request) error {
	if q.Operation != admission.Create || q.Subresource != "token" {
		return nil
	}
	asked, err := as[*authenticationv1.TokenRequest](q, q.Object)
	if err != nil {
		return err
	}
	ref := asked.Spec.BoundObjectRef
	switch {
	case ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "":
		return q.forbidden("node requested token not bound to a pod")
	case ref.UID == "":
		return q.forbidden("node requested token with a pod binding without a uid")
	}
	pod, err := p.findPod(q.Namespace, ref.Name)
	switch {
	case err != nil:
		return err
	case ref.UID != pod.UID:
		return q.forbidden("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	case pod.Spec.NodeName != q.node:
		return q.forbidden("node requested token bound to a pod scheduled on a different node")
	}
	if err := p.audience(ctx, q, pod, asked.Spec.Audiences); err != nil {
		return q.forbidden("%w", err)
	}
	return nil
}

// audience requires an audience for which the pod mounts a token; none means the API server's own.
func (p *Plugin) audience(ctx context.Context, q request, pod *corev1.Pod, asked []string) error {
	if len(asked) > 1 {
		return fmt.Errorf("node may only request 0 or 1 audiences")
	}
	audience := ""
	if len(asked) == 1 {
		audience = asked[0]
	}
	mounted, err := p.mounts(pod, audience)
	if err != nil {
		return fmt.Errorf("error validating audience %q: %w", audience, err)
	}
	if mounted {
		return nil
	}
	switch ok, err := p.allowed(ctx, q, "request-serviceaccounts-token-audience", audience, q.Name); {
	case ok:
		return nil
	case err != nil:
		return fmt.Errorf("error authorizing %s to request tokens for audience %q: %w", q.User.Name, audience, err)
	}
	return fmt.Errorf("%s is not authorized to request tokens for audience %q", q.User.Name, audience)
}

// mounts reports whether a volume of the pod needs a token for the audience: the volume projects one, or its
// driver gets one. Volumes that cannot be resolved are an error only if no other volume needs a token for it.
func (p *Plugin) mounts(pod *corev1.Pod, audience string) (bool, error) {
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Projected != nil {
			for _, source := range v.Projected.Sources {
				if source.ServiceAccountToken != nil && source.ServiceAccountToken.Audience == audience {
					return true, nil
				}
			}
		}
		needs, err := p.driverNeeds(pod, v, audience)
		if needs {
			return true, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return false, errors.NewAggregate(errs)
}

func (p *Plugin) driverNeeds(pod *corev1.Pod, v *corev1.Volume, audience string) (bool, error) {
	name, err := p.driverOf(pod, v)
	if name == "" {
		return false, err
	}
	driver, err := find(p.in.Drivers, schema.GroupResource{Group: storagev1.GroupName, Resource: "csidriver"}, "", name)
	if err != nil {
		return false, err
	}
	for _, request := range driver.Spec.TokenRequests {
		if request.Audience == audience {
			return true, nil
		}
	}
	return false, nil
}

// driverOf returns the CSI driver of a volume, or "".
func (p *Plugin) driverOf(pod *corev1.Pod, v *corev1.Volume) (string, error) {
	switch {
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		return p.driverOfClaim(pod.Namespace, pod.Name+"-"+v.Name)
	case v.PersistentVolumeClaim != nil:
		return p.driverOfClaim(pod.Namespace, v.PersistentVolumeClaim.ClaimName)
	case v.CSI != nil:
		return v.CSI.Driver, nil
	case v.GCEPersistentDisk != nil:
		return driverGCEPD, nil
	case v.AWSElasticBlockStore != nil:
		return driverEBS, nil
	case v.Cinder != nil:
		return driverCinder, nil
	case v.AzureDisk != nil:
		return driverAzureDisk, nil
	case v.AzureFile != nil:
		return driverAzureFile, nil
	case v.VsphereVolume != nil:
		return driverVSphere, nil
	case v.PortworxVolume != nil:
		return driverPortworx, nil
	}
	return "", nil
}

func (p *Plugin) driverOfClaim(namespace, name string) (string, error) {
	claim, err := find(p.in.Claims, schema.GroupResource{Resource: "persistentvolumeclaim"}, namespace, name)
	if err != nil {
		return "", err
	}
	volume, err := find(p.in.Volumes, schema.GroupResource{Resource: "persistentvolume"}, "", claim.Spec.VolumeName)
	if err != nil {
		return "", err
	}
	switch v := volume.Spec; {
	case v.CSI != nil:
		return v.CSI.Driver, nil
	case v.GCEPersistentDisk != nil:
		return driverGCEPD, nil
	case v.AWSElasticBlockStore != nil:
		return driverEBS, nil
	case v.Cinder != nil:
		return driverCinder, nil
	case v.AzureDisk != nil:
		return driverAzureDisk, nil
	case v.AzureFile != nil:
		return driverAzureFile, nil
	case v.VsphereVolume != nil:
		return driverVSphere, nil
	case v.PortworxVolume != nil:
		return driverPortworx, nil
	}
	return "", nil
}

// The CSI drivers that serve the formerly in-tree volume types.
const (
	driverGCEPD     = "pd.csi.storage.gke.io"
	driverEBS       = "ebs.csi.aws.com"
	driverCinder    = "cinder.csi.openstack.org"
	driverAzureDisk = "disk.csi.azure.com"
	driverAzureFile = "file.csi.azure.com"
	driverVSphere   = "csi.vsphere.vmware.com"
	driverPortworx  = "pxd.portworx.com"
)
