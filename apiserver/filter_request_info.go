package apiserver

import (
	"fmt"
	"net/http"
)

// filterRequestInfo reads what the request asks for. It returns false if its path names no resource where it must, which
// it has answered.
func filterRequestInfo(x *exchange, r *http.Request) bool {
	x.request = ParseRequest(r)
	x.longRunning = x.request.LongRunning()
	if x.request.nameless {
		internalError(x.w, r, fmt.Errorf("failed to create RequestInfo: unable to determine kind and namespace from url, %s", r.URL.RequestURI()))
		return false
	}
	return true
}
