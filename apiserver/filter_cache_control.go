package apiserver

// filterCacheControl keeps answers out of caches. Handlers may say otherwise.
func filterCacheControl(x *exchange) {
	x.w.Header()["Cache-Control"] = []string{"no-cache, private"}
}
