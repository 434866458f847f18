package wire

import (
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
)

// EncodeStatus makes the message.
func EncodeStatus(s cri.RuntimeStatus) *v1.StatusResponse {
	return &v1.StatusResponse{
		Status: &v1.RuntimeStatus{Conditions: []*v1.RuntimeCondition{
			encodeCondition(v1.RuntimeReady, s.Runtime), encodeCondition(v1.NetworkReady, s.Network),
		}},
		RuntimeHandlers: each(s.Handlers, func(h cri.RuntimeHandler) *v1.RuntimeHandler {
			return &v1.RuntimeHandler{Name: h.Name, Features: &v1.RuntimeHandlerFeatures{
				RecursiveReadOnlyMounts: h.RecursiveReadOnlyMounts, UserNamespaces: h.UserNamespaces,
			}}
		}),
		Features: &v1.RuntimeFeatures{
			SupplementalGroupsPolicy:  s.Features.SupplementalGroupsPolicy,
			UserNamespacesHostNetwork: s.Features.UserNamespacesHostNetwork,
			MountOptions:              s.Features.MountOptions,
		},
	}
}

// DecodeStatus reads the message. A condition that it lacks is not ready.
func DecodeStatus(s *v1.StatusResponse) cri.RuntimeStatus {
	return cri.RuntimeStatus{
		Runtime: decodeCondition(v1.RuntimeReady, s.GetStatus()), Network: decodeCondition(v1.NetworkReady, s.GetStatus()),
		Handlers: each(s.GetRuntimeHandlers(), func(h *v1.RuntimeHandler) cri.RuntimeHandler {
			return cri.RuntimeHandler{
				Name: h.GetName(), RecursiveReadOnlyMounts: h.GetFeatures().GetRecursiveReadOnlyMounts(), UserNamespaces: h.GetFeatures().GetUserNamespaces(),
			}
		}),
		Features: cri.RuntimeFeatures{
			SupplementalGroupsPolicy:  s.GetFeatures().GetSupplementalGroupsPolicy(),
			UserNamespacesHostNetwork: s.GetFeatures().GetUserNamespacesHostNetwork(),
			MountOptions:              s.GetFeatures().GetMountOptions(),
		},
	}
}

func encodeCondition(kind string, c cri.Condition) *v1.RuntimeCondition {
	return &v1.RuntimeCondition{Type: kind, Status: c.Ready, Reason: c.Reason, Message: c.Message}
}

func decodeCondition(kind string, s *v1.RuntimeStatus) cri.Condition {
	for _, c := range s.GetConditions() {
		if c.GetType() == kind {
			return cri.Condition{Ready: c.GetStatus(), Reason: c.GetReason(), Message: c.GetMessage()}
		}
	}
	return cri.Condition{Reason: "NotReported", Message: "the container runtime does not report " + kind}
}

// EncodeEvent makes the message.
func EncodeEvent(e cri.Event) *v1.ContainerEventResponse {
	return &v1.ContainerEventResponse{
		ContainerId: e.ID, ContainerEventType: v1.ContainerEventType(e.Type), CreatedAt: encodeTime(e.At),
		PodSandboxStatus: &v1.PodSandboxStatus{Metadata: encodePodMetadata(e.Pod)},
	}
}

// DecodeEvent reads the message.
func DecodeEvent(e *v1.ContainerEventResponse) cri.Event {
	return cri.Event{
		Type: cri.EventType(e.GetContainerEventType()), ID: e.GetContainerId(), At: decodeTime(e.GetCreatedAt()),
		Pod: decodePodMetadata(e.GetPodSandboxStatus().GetMetadata()),
	}
}

// EncodeCgroupDriver makes the value.
func EncodeCgroupDriver(d cri.CgroupDriver) v1.CgroupDriver { return v1.CgroupDriver(d) }

// DecodeCgroupDriver reads the value.
func DecodeCgroupDriver(d v1.CgroupDriver) cri.CgroupDriver { return cri.CgroupDriver(d) }
