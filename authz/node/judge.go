package node

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/authz"
)

// get allows reading one related object.
func (z *Authorizer) get(node string, k kind, a authz.Attributes) refusal {
	switch {
	case a.Verb != "get":
		return "can only get individual resources of this type"
	case a.Subresource != "":
		return "cannot get subresource"
	}
	return z.related(node, k, a)
}

// read allows reading and watching one related object in a namespace.
func (z *Authorizer) read(node string, k kind, a authz.Attributes) refusal {
	switch {
	case !isRead(a.Verb):
		return "can only read resources of this type"
	case a.Subresource != "":
		return "cannot read subresource"
	case a.Namespace == "":
		return "can only read namespaced object of this type"
	}
	return z.related(node, k, a)
}

// updateStatus allows writing the status of one related object.
func (z *Authorizer) updateStatus(node string, k kind, a authz.Attributes) refusal {
	if a.Verb != "update" && a.Verb != "patch" {
		return "can only get/update/patch this type"
	}
	return z.related(node, k, a)
}

func (z *Authorizer) serviceAccount(node string, a authz.Attributes) refusal {
	switch {
	case a.Verb == "get" && a.Subresource == "":
		return z.read(node, serviceAccount, a)
	case a.Verb != "create" || a.Name == "":
		return "can only create tokens for individual service accounts"
	case a.Subresource != "token":
		return "can only create token subresource of serviceaccount"
	}
	return z.known(node, serviceAccount, a)
}

// A create has no name here: NodeRestriction checks it.
func lease(node string, a authz.Attributes) refusal {
	switch {
	case !slices.Contains([]string{"get", "create", "update", "patch", "delete"}, a.Verb):
		return "can only get, create, update, patch, or delete a node lease"
	case a.Namespace != corev1.NamespaceNodeLease:
		return refusal(fmt.Sprintf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease))
	case a.Verb != "create" && a.Name != node:
		return "can only access node lease with the same name as the requesting node"
	}
	return allowed
}

func csiNode(node string, a authz.Attributes) refusal {
	switch a.Subresource {
	case "":
	case "status":
		return "CSINode status access requires CSIVolumeHealth feature"
	default:
		return "cannot authorize CSINode subresources"
	}
	switch {
	case !slices.Contains([]string{"get", "create", "update", "patch", "delete"}, a.Verb):
		return "can only get, create, update, patch, or delete a CSINode"
	case a.Verb != "create" && a.Name != node:
		return "can only access CSINode with the same name as the requesting node"
	}
	return allowed
}

func (z *Authorizer) resourceSlice(node string, a authz.Attributes) refusal {
	if a.Subresource != "" {
		return "cannot authorize ResourceSlice subresources"
	}
	switch a.Verb {
	case "create":
		return allowed
	case "get", "update", "patch", "delete":
		return z.related(node, resourceSlice, a)
	case "watch", "list", "deletecollection":
		if selectsNode(a, "spec.nodeName", node) {
			return allowed
		}
		return "can only list/watch/deletecollection resourceslices with nodeName field selector"
	}
	return "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"
}

func (z *Authorizer) certificateRequest(node string, a authz.Attributes) refusal {
	if a.Subresource != "" {
		return "nodes may not access the status subresource of PodCertificateRequests"
	}
	switch a.Verb {
	case "create":
		return allowed
	case "get":
		return z.related(node, certificateRequest, a)
	case "list", "watch":
		if selectsNode(a, "spec.nodeName", node) {
			return allowed
		}
		return "can only list/watch podcertificaterequests with nodeName field selector"
	}
	return refusal(fmt.Sprintf("nodes may not %s podcertificaterequests", a.Verb))
}

// nodeObject compares only names: a kubelet looks for its Node before it creates it.
func nodeObject(node string, a authz.Attributes) refusal {
	switch a.Subresource {
	case "":
		switch {
		case a.Verb == "create" || a.Verb == "update" || a.Verb == "patch":
			return allowed
		case !isRead(a.Verb):
			return ""
		case a.Name == node:
			return allowed
		case a.Name == "":
			return refusal(fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", node))
		}
		return refusal(fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", node, a.Name))
	case "status":
		if a.Verb == "update" || a.Verb == "patch" {
			return allowed
		}
	}
	return ""
}

func (z *Authorizer) pod(node string, a authz.Attributes) refusal {
	switch a.Subresource {
	case "":
		switch a.Verb {
		case "get":
			return z.get(node, pod, a)
		case "list", "watch":
			switch {
			case selectsNode(a, "spec.nodeName", node):
				return allowed
			case a.Name != "":
				return z.related(node, pod, a)
			}
			return "can only list/watch pods with spec.nodeName field selector"
		case "create", "delete":
			return allowed
		}
	case "status":
		if a.Verb == "update" || a.Verb == "patch" {
			return allowed
		}
	case "eviction":
		if a.Verb == "create" {
			return allowed
		}
	}
	return ""
}

func isRead(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }
