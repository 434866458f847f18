package quota

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const deviceClaims = "count/resourceclaims.resource.k8s.io"

// deviceEvaluator measures resource claims (KEP-4381) by the maximum number of devices of each class that they may get.
func deviceEvaluator() Evaluator {
	return Evaluator{
		tracks: func(name corev1.ResourceName) bool {
			return name == deviceClaims || strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
		},
		usage: func(obj runtime.Object, _ time.Time) corev1.ResourceList {
			usage := corev1.ResourceList{deviceClaims: count(1)}
			if claim, ok := obj.(*resourcev1.ResourceClaim); ok {
				for _, request := range claim.Spec.Devices.Requests {
					usage = Add(usage, devices(&request))
				}
			}
			return usage
		},
		rises: func(_, _ runtime.Object) bool { return true },
	}
}

func devices(request *resourcev1.DeviceRequest) corev1.ResourceList {
	most := map[string]int64{}
	note := func(class string, mode resourcev1.DeviceAllocationMode, n int64) {
		switch mode {
		case resourcev1.DeviceAllocationModeExactCount:
		case resourcev1.DeviceAllocationModeAll:
			n = resourcev1.AllocationResultsMaxSize
		default:
			n = 0
		}
		most[class] = max(most[class], n)
	}
	for _, alternative := range request.FirstAvailable {
		note(alternative.DeviceClassName, alternative.AllocationMode, alternative.Count)
	}
	if exactly := request.Exactly; exactly != nil && len(request.FirstAvailable) == 0 {
		note(exactly.DeviceClassName, exactly.AllocationMode, exactly.Count)
	}
	usage := corev1.ResourceList{}
	for class, n := range most {
		usage[corev1.ResourceName(class+corev1.ResourceClaimsPerClass)] = count(int(n))
	}
	return usage
}
