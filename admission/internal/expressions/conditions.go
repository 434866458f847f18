package expressions

import (
	"github.com/google/cel-go/common/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
)

// Met reports whether match conditions are met, given what they evaluate to: false if one is false, even if others fail;
// otherwise an error if some fail.
func Met(results []plugincel.EvaluationResult) (bool, error) {
	var failed []error
	for _, result := range results {
		switch {
		case result.Error != nil:
			failed = append(failed, result.Error)
		case result.EvalResult == types.False:
			return false, nil
		}
	}
	return len(failed) == 0, utilerrors.NewAggregate(failed)
}
