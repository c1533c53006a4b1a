-- Checks a request with tidegate, and stores the answer in transaction variables.
-- txn.tidegate_status is 0 if tidegate cannot be reached.

-- Headers of this hop, headers of the body, and headers that only this proxy may set.
local kept_back = {
  ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["expect"] = true, ["host"] = true,
  ["upgrade"] = true, ["te"] = true, ["trailer"] = true, ["keep-alive"] = true,
  ["forwarded"] = true, ["x-original-uri"] = true, ["x-original-url"] = true, ["x-original-method"] = true,
}

core.register_action("tidegate", { "http-req" }, function(txn)
  local headers = {}
  for name, values in pairs(txn.http:req_get_headers()) do
    if not kept_back[name] then
      local list = {}
      for i = 0, #values do list[#list + 1] = values[i] end
      headers[name] = list
    end
  end
  headers["x-forwarded-for"] = { txn.sf:src() }
  headers["x-forwarded-method"] = { txn.sf:method() }
  headers["x-forwarded-uri"] = { txn.sf:pathq() }
  headers["x-forwarded-host"] = { txn.sf:req_hdr("host") or "" }
  headers["x-forwarded-proto"] = { txn.sf:ssl_fc() == 1 and "https" or "http" }

  local answer = core.httpclient():get{ url = "http://127.0.0.1:8080/v1/auth", headers = headers, timeout = 250 }
  txn:set_var("txn.tidegate_status", answer and answer.status or 0)
  local function copy_header(name, variable)
    local values = answer and answer.headers and answer.headers[name]
    if values and values[0] then txn:set_var("txn." .. variable, values[0]) end
  end
  copy_header("retry-after", "retry_after")
  copy_header("ratelimit", "ratelimit")
  copy_header("ratelimit-policy", "ratelimit_policy")
end, 0)
