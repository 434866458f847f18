package noderestriction

import (
	"context"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/internal/signingrequest"
)

// certificate lets a node request kubelet certificates in its own name only. The signer checks everything else.
func certificate(q request) error {
	if q.Operation != admission.Create {
		return nil
	}
	csr, err := as[*certificatesv1.CertificateSigningRequest](q, q.Object)
	if err != nil {
		return err
	}
	if s := csr.Spec.SignerName; s != certificatesv1.KubeletServingSignerName && s != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return nil
	}
	asked, err := signingrequest.Parse(csr.Spec.Request)
	if err != nil {
		return q.forbidden("unable to parse csr: %w", err)
	}
	if asked.Subject.CommonName != "system:node:"+q.node {
		return q.forbidden("can only create a node CSR with CN=system:node:%s", q.node)
	}
	return nil
}

// podCertificate lets a node request the certificates that its pods mount (KEP-4317).
func (p *Plugin) podCertificate(ctx context.Context, q request) error {
	switch {
	case q.Operation != admission.Create:
		return q.forbidden("unexpected operation %v", q.Operation)
	case q.Subresource != "":
		return q.forbidden("unexpected subresource %v", q.Subresource)
	}
	asked, err := as[*certificatesv1.PodCertificateRequest](q, q.Object)
	if err != nil {
		return err
	}
	if err := p.requester(q, asked); err != nil {
		return err
	}
	pod, err := p.subject(q, asked)
	if err != nil {
		return err
	}
	if err := p.account(q, asked, pod); err != nil {
		return err
	}
	if err := p.signer(ctx, q, asked, pod); err != nil {
		return q.forbidden("%w", err)
	}
	return nil
}

// missing returns a plain error rather than a refusal, since the object may not have reached the cache yet:
// with a status of its own, clients would not retry.
func missing(what, name string, err error) error {
	return fmt.Errorf("while retrieving %s %q named in the PodCertificateRequest: %s", what, name, err.Error())
}

// requester requires the current node.
func (p *Plugin) requester(q request, asked *certificatesv1.PodCertificateRequest) error {
	name := string(asked.Spec.NodeName)
	if name != q.node {
		return q.forbidden("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", name, q.node)
	}
	node, err := p.findNode(name)
	if err != nil {
		return missing("node", name, err)
	}
	if node.UID != asked.Spec.NodeUID {
		return fmt.Errorf("PodCertificateRequest for pod %q names node UID %q, inconsistent with the running node (%q)", podOf(q, asked), asked.Spec.NodeUID, node.UID)
	}
	return nil
}

// podOf returns the pod's name in messages.
func podOf(q request, asked *certificatesv1.PodCertificateRequest) string {
	return q.Namespace + "/" + asked.Spec.PodName
}

// subject requires a pod that runs on the node and came from the API server, not a mirror pod.
func (p *Plugin) subject(q request, asked *certificatesv1.PodCertificateRequest) (*corev1.Pod, error) {
	name := podOf(q, asked)
	pod, err := p.findPod(q.Namespace, asked.Spec.PodName)
	if err != nil {
		return nil, missing("pod", name, err)
	}
	if asked.Spec.PodUID != pod.UID {
		return nil, fmt.Errorf("PodCertificateRequest for pod %q contains pod UID (%q) which differs from running pod %q", name, asked.Spec.PodUID, pod.UID)
	}
	if pod.Spec.NodeName != q.node {
		return nil, q.forbidden("pod %q is not running on node %q named in the PodCertificateRequest", name, q.node)
	}
	if _, isMirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; isMirror {
		return nil, q.forbidden("pod %q is a mirror pod", name)
	}
	return pod, nil
}

func (p *Plugin) account(q request, asked *certificatesv1.PodCertificateRequest, pod *corev1.Pod) error {
	name := asked.Spec.ServiceAccountName
	if name != pod.Spec.ServiceAccountName {
		return q.forbidden("PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod (%q)", podOf(q, asked), name, pod.Spec.ServiceAccountName)
	}
	account, err := find(p.in.ServiceAccounts, schema.GroupResource{Resource: "serviceaccount"}, q.Namespace, name)
	if err != nil {
		return missing("service account", q.Namespace+"/"+name, err)
	}
	if asked.Spec.ServiceAccountUID != account.UID {
		return fmt.Errorf("PodCertificateRequest for pod %q names service account UID %q, which differs from the running service account (%q)", podOf(q, asked), asked.Spec.ServiceAccountUID, account.UID)
	}
	return nil
}

// signer requires a signer whose certificate the pod mounts.
func (p *Plugin) signer(ctx context.Context, q request, asked *certificatesv1.PodCertificateRequest, pod *corev1.Pod) error {
	name := asked.Spec.SignerName
	for i := range pod.Spec.Volumes {
		if projected := pod.Spec.Volumes[i].Projected; projected != nil {
			for _, source := range projected.Sources {
				if source.PodCertificate != nil && source.PodCertificate.SignerName == name {
					return nil
				}
			}
		}
	}
	// Resources in RBAC have no slashes.
	resource := strings.ReplaceAll(name, "/", ":")
	switch ok, err := p.allowed(ctx, q, "request-serviceaccounts-podcertificate-signer", resource, asked.Spec.ServiceAccountName); {
	case ok:
		return nil
	case err != nil:
		return fmt.Errorf("error authorizing %s to request podcertificaterequests for signer %q: %w", q.User.Name, name, err)
	}
	return fmt.Errorf("pod %q does not mount a podCertificate projected volume for signer %q", podOf(q, asked), name)
}
